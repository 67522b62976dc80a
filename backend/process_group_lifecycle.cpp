// What torch asks of a group besides operations: hooks, timing, monitored barriers, groups made of this one.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend/ending.hpp"
#include "backend/errors.hpp"
#include "backend/live_groups.hpp"
#include "backend/process_group.hpp"

namespace ucxring {

c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupUcxring::getBackendOptions() {
  return c10::make_intrusive<OptionsUcxring>(*options_);
}

void ProcessGroupUcxring::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  const EndingGuard guard;
  const bool unset = opts.timeout == c10d::kUnsetTimeout;
  translate_errors(context_->description, [&] {
    communicator_->status().throw_if_error();
    monitored_barrier_->wait(unset ? communicator_->timeout() : opts.timeout, wait_all_ranks);
  });
}

void ProcessGroupUcxring::registerOnCompletionHook(
    std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) {
  if (hasHooks()) {
    throw_invalid_argument("register_on_completion_hook: this group has a hook already and takes one only");
  }
  // Shared: copies of a hook of Python's may be made and dropped only with its lock.
  const auto shared = std::make_shared<const CompletionHook>(std::move(hook));
  onCompletionHook_ = [shared](std::shared_ptr<c10d::WorkInfo> info) { (*shared)(std::move(info)); };
  context_->on_completion.store(shared);
  context_->observed.store(true);
}

/// Whoever has interrupted this once does not want to wait: the next call, which usually comes from a
/// destroy_process_group() that cleans up, returns at once.
void ProcessGroupUcxring::waitForPendingWorks() {
  context_->require_here();
  if (interrupted_.load()) return;
  try {
    context_->futures.drain(check_);
  } catch (...) {
    interrupted_.store(true);
    throw;
  }
}

void ProcessGroupUcxring::enableCollectivesTiming() { context_->observed.store(true); }

c10::intrusive_ptr<OptionsUcxring> ProcessGroupUcxring::derived_options(
    const c10::intrusive_ptr<Backend::Options>& chosen) const {
  const auto* const ours = dynamic_cast<const OptionsUcxring*>(chosen.get());
  auto options = c10::make_intrusive<OptionsUcxring>(ours != nullptr ? *ours : *options_);
  if (chosen != nullptr && ours == nullptr) {
    options->timeout = chosen->timeout;
    options->group_name = chosen->group_name;
    options->global_ranks_in_group = chosen->global_ranks_in_group;
  }
  return options;
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupUcxring::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Backend::Options>& opts) {
  const auto own = std::find(ranks.begin(), ranks.end(), getRank());
  if (own == ranks.end()) return nullptr;
  auto options = derived_options(opts);
  const auto& global = options_->global_ranks_in_group;
  options->global_ranks_in_group.clear();
  for (const int rank : ranks) {
    const auto index = static_cast<std::size_t>(rank);
    options->global_ranks_in_group.push_back(global.empty() ? index : global.at(index));
  }
  auto group =
      c10::make_intrusive<ProcessGroupUcxring>(store, static_cast<int>(own - ranks.begin()),
                                               static_cast<int>(ranks.size()), std::move(options), check_);
  remember_group(group);
  return group;
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupUcxring::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                             const c10::intrusive_ptr<Backend::Options>& opts,
                                                             const int& rank, const int& size) {
  auto options = derived_options(opts);
  options->global_ranks_in_group.clear();
  auto group = c10::make_intrusive<ProcessGroupUcxring>(store, rank, size, std::move(options), check_);
  remember_group(group);
  return group;
}

}  // namespace ucxring
