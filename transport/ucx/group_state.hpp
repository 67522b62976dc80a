// What the parts of one group's transport share.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "transport/audience.hpp"
#include "transport/transport.hpp"
#include "transport/ucx/handles.hpp"
#include "transport/ucx/join.hpp"
#include "transport/ucx/settings.hpp"

namespace ucxring::ucx {

/// One rank's view of its group. Owned by `UcxTransport`; the parts hold references.
struct GroupState {
  ucp_worker_h worker = nullptr;
  Protocol protocol{};
  Rank rank;
  GroupSecret secret{};
  std::vector<Member> members;
  Audience audience;
  Status aborted;  ///< why, once the group is aborted
  bool activity = false;
  std::chrono::steady_clock::time_point last_warning{};
  std::string choice;  ///< of transports and devices, for messages

  [[nodiscard]] Route route_to(Rank peer) const noexcept {
    return {secret, static_cast<std::uint32_t>(rank.value), static_cast<std::uint32_t>(peer.value)};
  }
  /// "rank 3 (host node7, pid 4711)".
  [[nodiscard]] std::string describe(Rank peer) const;
  /// Logs that a message was dropped and why, at most once a second.
  void warn_dropped(std::string_view why);
};

}  // namespace ucxring::ucx
