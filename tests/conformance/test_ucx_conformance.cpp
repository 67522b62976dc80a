#include "tests/conformance/transport_conformance.hpp"
#include "tests/support/ucx_ranks.hpp"

namespace ucxring::testing {
namespace {

std::unique_ptr<TransportGroup> make_ucx(int world_size) {
  auto group = std::make_unique<TransportGroup>();
  group->transports = make_ucx_ranks(world_size, make_memory_store());
  return group;
}

INSTANTIATE_TEST_SUITE_P(Ucx, TransportConformance,
                         ::testing::Values(TransportFactory{"one_thread", false, make_ucx},
                                           TransportFactory{"threads", true, make_ucx}),
                         factory_name);

}  // namespace
}  // namespace ucxring::testing
