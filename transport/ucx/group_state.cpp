#include "transport/ucx/group_state.hpp"

#include <fmt/format.h>

#include "transport/base/log.hpp"

namespace ucxring::ucx {

std::string GroupState::describe(Rank peer) const {
  return fmt::format("rank {} ({})", peer.value, members[static_cast<std::size_t>(peer.value)].where);
}

void GroupState::warn_dropped(std::string_view why) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_warning < std::chrono::seconds(1)) return;
  last_warning = now;
  log::warning("dropped a message over UCX: {}", why);
}

}  // namespace ucxring::ucx
