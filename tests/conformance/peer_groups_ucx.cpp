#include "tests/conformance/peer_groups.hpp"
#include "transport/ucx/ucx.hpp"

namespace ucxring::testing {
namespace {

Join over_ucx(const std::shared_ptr<Store>& store, int world_size) {
  return [=](Rank rank) {
    return ucx::create(ucx::make_context(Config{}, "localhost"), store, rank, world_size,
                       std::chrono::seconds(60));
  };
}

}  // namespace

std::vector<PeerGroups> all_peer_groups() { return {peer_groups("ucx", over_ucx)}; }

}  // namespace ucxring::testing
