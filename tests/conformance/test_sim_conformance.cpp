#include "tests/conformance/transport_conformance.hpp"
#include "transport/sim/sim.hpp"

namespace ucxring::testing {
namespace {

class SimGroup final : public TransportGroup {
 public:
  explicit SimGroup(const sim::Options& options) : world_(sim::make_world(options)) {
    for (int rank = 0; rank < options.world_size; ++rank)
      transports.push_back(sim::create(world_, Rank(rank)));
  }
  bool kill(Rank rank) override {
    world_->kill(rank, world_->now());
    return true;
  }

 private:
  std::shared_ptr<sim::World> world_;
};

std::unique_ptr<TransportGroup> make(int world_size) {
  sim::Options options;
  options.world_size = world_size;
  return std::make_unique<SimGroup>(options);
}

/// Late, out of order, all ranks on two hosts.
std::unique_ptr<TransportGroup> make_unruly(int world_size) {
  sim::Options options;
  options.world_size = world_size;
  options.ranks_per_host = 2;
  options.jitter = std::chrono::microseconds(100);
  options.reorder = true;
  options.seed = 42;
  return std::make_unique<SimGroup>(options);
}

INSTANTIATE_TEST_SUITE_P(Sim, TransportConformance,
                         ::testing::Values(TransportFactory{"quiet", false, make},
                                           TransportFactory{"unruly", false, make_unruly}),
                         factory_name);

}  // namespace
}  // namespace ucxring::testing
