#include "tests/conformance/transport_conformance.hpp"
#include "tests/support/shm_ranks.hpp"

namespace ucxring::testing {
namespace {

std::unique_ptr<TransportGroup> make_shm(int world_size) {
  auto group = std::make_unique<TransportGroup>();
  group->transports = make_shm_ranks(world_size);
  return group;
}

INSTANTIATE_TEST_SUITE_P(Shm, TransportConformance,
                         ::testing::Values(TransportFactory{"one_thread", false, make_shm},
                                           TransportFactory{"threads", true, make_shm}),
                         factory_name);

}  // namespace
}  // namespace ucxring::testing
