// Which ranks of a group share memory with this one: tried, never guessed from names of hosts.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/base/config.hpp"
#include "transport/base/token.hpp"
#include "transport/shm/neighbour.hpp"
#include "transport/shm/region.hpp"
#include "transport/store.hpp"
#include "transport/types.hpp"

namespace ucxring::shm {

/// What this context shows to others. Nothing here is owned.
struct Here {
  Token token{};               ///< identifies the context
  int doorbell = -1;           ///< non-blocking eventfd
  int pool = -1;               ///< memory file of registered memory; -1: none
  std::size_t pool_bytes = 0;  ///< its size
};

/// A rank that shares memory with this one.
struct Peer {
  std::shared_ptr<Neighbour> neighbour;
  RegionView outbox;
  bool reads_pool = false;  ///< whether it has mapped this context's registered memory
};

/// What a meeting gives.
struct Neighbours {
  std::vector<int> hosts;  ///< as `Transport::hosts()`
  std::vector<std::optional<Peer>>
      peers;                    ///< by rank; empty for this rank itself and for ranks of other hosts
  int cores = 1;                ///< that the ranks of this host may use together (affinity and CPU quotas)
  bool oversubscribed = false;  ///< more ranks than cores, also when only because of how they are pinned
  bool membarrier = false;      ///< every rank of this host takes part in MEMBARRIER_CMD_GLOBAL_EXPEDITED
  std::string reason;      ///< why some ranks share no memory with this one, for a log line; empty: all do
  bool avoidable = false;  ///< some of those run on this very machine
};

/// Finds out who shares memory with whom. Collective over all ranks of the group; blocks for at most
/// `timeout`. Each rank opens a Unix socket whose random name it publishes in `store`, tries those of the
/// lower ranks, hands over descriptors of its outbox, its doorbell and its registered memory with a secret
/// that only members of the group know, maps what it gets and looks whether the token is there. All ranks
/// then read what all others found, so that they agree.
///
/// `outbox` is null when this rank cannot share memory, and `why_not` says why: it takes part all the same,
/// so that the others know. The descriptors in `here` and the region must stay while the group lives. Throws
/// `Error`: timeout names the ranks that did not come, mismatch one that expects another world size or speaks
/// another version; failures to share memory are no errors but `reason`.
[[nodiscard]] Neighbours meet(Store& store, Rank rank, int world_size, std::chrono::milliseconds timeout,
                              const Region* outbox, const std::string& why_not, const Here& here,
                              const Config& config);

}  // namespace ucxring::shm
