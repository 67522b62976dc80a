#include "backend/live_groups.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "backend/ending.hpp"
#include "transport/base/process.hpp"

namespace ucxring {
namespace {

using WeakGroup = c10::weak_intrusive_ptr<ProcessGroupUcxring>;

struct Registry {
  std::mutex mutex;
  std::vector<WeakGroup> groups;
};

/// A forked child knows none of its parent's groups.
Registry& registry() {
  static PerProcess<Registry> of_process;
  return of_process.get();
}

}  // namespace

void remember_group(const c10::intrusive_ptr<ProcessGroupUcxring>& group) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  std::erase_if(known.groups, [](const WeakGroup& weak) { return weak.expired(); });
  known.groups.emplace_back(group);
}

void shut_down_all_groups(bool (*holds_back)()) {
  begin_ending(holds_back);
  std::vector<WeakGroup> groups;
  {
    Registry& known = registry();
    const std::lock_guard lock(known.mutex);
    groups = std::exchange(known.groups, {});
  }
  for (const WeakGroup& weak : groups) {
    if (const auto group = weak.lock()) group->shutdown();
  }
}

}  // namespace ucxring
