// Transports that need no network.
#include "tests/conformance/peer_groups.hpp"
#include "transport/loopback/loopback.hpp"
#include "transport/mixed/mixed.hpp"
#include "transport/shm/shm.hpp"

namespace ucxring::testing {
namespace {

Join over_loopback(const std::shared_ptr<Store>& /*store*/, int world_size) {
  const auto hub = loopback::make_hub(world_size);
  return [hub](Rank rank) { return loopback::create(hub, rank); };
}

Join over_shm(const std::shared_ptr<Store>& store, int world_size) {
  return [=](Rank rank) {
    return shm::join(shm::make_context(), store, rank, world_size, std::chrono::seconds(60), Config{})
        .transport;
  };
}

/// Ranks 2n and 2n + 1 are near each other, which is what `mixed` cares about.
Join over_mixed(const std::shared_ptr<Store>& /*store*/, int world_size) {
  std::vector<int> hosts;
  for (int rank = 0; rank < world_size; ++rank) hosts.push_back(rank / 2);
  const auto near = loopback::make_hub(world_size, hosts);
  const auto far = loopback::make_hub(world_size);
  return [=](Rank rank) { return mixed::create(loopback::create(near, rank), loopback::create(far, rank)); };
}

}  // namespace

std::vector<PeerGroups> all_peer_groups() {
  return {peer_groups("loopback", over_loopback), peer_groups("shm", over_shm),
          peer_groups("mixed", over_mixed)};
}

}  // namespace ucxring::testing
