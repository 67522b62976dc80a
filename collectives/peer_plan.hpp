// The plan of a large message between two ranks: a schedule of one step.
#pragma once

#include <memory>
#include <vector>

#include "collectives/peer_message.hpp"
#include "collectives/plan.hpp"

namespace ucxring {

/// Which half of which message.
struct PeerTransfer {
  bool sends = false;
  Rank peer;
  DataType type = DataType::uint8;
  std::uint64_t bytes = 0;
  friend bool operator==(const PeerTransfer&, const PeerTransfer&) = default;
};

/// Plans of the transfers of one rank; a repeated one costs a look. Not thread-safe.
class PeerPlans {
 public:
  /// As in `PlanEnvironment`.
  PeerPlans(Rank rank, std::vector<int> hosts, const SharedMemory* shared, const Config& config);
  [[nodiscard]] std::shared_ptr<const Plan> get(const PeerTransfer& transfer);

 private:
  struct Entry {
    PeerTransfer transfer;
    std::shared_ptr<const Plan> plan;
  };
  static constexpr std::size_t kCapacity = 64;  ///< direct-mapped

  [[nodiscard]] Plan make(const PeerTransfer& transfer) const;

  Rank rank_;
  std::vector<int> hosts_;
  const SharedMemory* shared_;
  Config config_;
  std::vector<Entry> entries_;
};

}  // namespace ucxring
