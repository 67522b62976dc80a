// Which peers nothing can be posted to any more, and why.
#pragma once

#include <unordered_map>

#include "transport/types.hpp"

namespace ucxring {

/// Remembers the first reason for each peer. Costs memory only for peers that are gone. Not thread-safe.
class GonePeers {
 public:
  /// Why `peer` is gone; ok while it is not.
  [[nodiscard]] const Status& why(Rank peer) const noexcept {
    if (reasons_.empty()) return ok_;
    const auto found = reasons_.find(peer.value);
    return found == reasons_.end() ? ok_ : found->second;
  }

  /// False when `peer` was gone before; its reason stays.
  bool mark(Rank peer, const Status& why) { return reasons_.emplace(peer.value, why).second; }

 private:
  std::unordered_map<int, Status> reasons_;
  Status ok_;
};

}  // namespace ucxring
