#include <poll.h>

#include "tests/conformance/transport_conformance.hpp"
#include "tests/support/layouts.hpp"
#include "transport/loopback/loopback.hpp"
#include "transport/mixed/context.hpp"
#include "transport/mixed/mixed.hpp"
#include "transport/sim/sim.hpp"

namespace ucxring::testing {
namespace {

/// Loopback on both sides: what matters here is which of them a message takes.
class MixedGroup final : public TransportGroup {
 public:
  explicit MixedGroup(const Layout& hosts)
      : near_(loopback::make_hub(static_cast<int>(hosts.size()), hosts)),
        far_(loopback::make_hub(static_cast<int>(hosts.size()))) {
    for (int rank = 0; rank < near_->world_size(); ++rank) {
      transports.push_back(
          mixed::create(loopback::create(near_, Rank(rank)), loopback::create(far_, Rank(rank))));
    }
  }
  bool kill(Rank rank) override {
    far_->kill(rank);
    near_->kill(rank);
    return true;
  }
  [[nodiscard]] loopback::Hub& near() noexcept { return *near_; }
  [[nodiscard]] loopback::Hub& far() noexcept { return *far_; }

 private:
  std::shared_ptr<loopback::Hub> near_;
  std::shared_ptr<loopback::Hub> far_;
};

std::unique_ptr<TransportGroup> make_pairs(int world_size) {
  return std::make_unique<MixedGroup>(even_layout(world_size, 2));
}

/// Rank 1 is on another host than ranks 0 and 2.
std::unique_ptr<TransportGroup> make_interleaved(int world_size) {
  Layout hosts;
  for (int rank = 0; rank < world_size; ++rank) hosts.push_back(rank % 2);
  return std::make_unique<MixedGroup>(hosts);
}

INSTANTIATE_TEST_SUITE_P(Mixed, TransportConformance,
                         ::testing::Values(TransportFactory{"pairs", false, make_pairs},
                                           TransportFactory{"pairs_on_threads", true, make_pairs},
                                           TransportFactory{"interleaved", false, make_interleaved},
                                           TransportFactory{"interleaved_on_threads", true,
                                                            make_interleaved}),
                         factory_name);

/// A rank that is lost on one of the two transports is lost to those that it is connected with over that one
/// only.
TEST(Mixed, ChoosesByHost) {
  MixedGroup group({0, 0, 1});
  RecordingListener listener;
  Transport& first = *group.transports[0];
  first.set_listener(&listener);
  EXPECT_EQ(first.name(), "loopback+loopback");
  EXPECT_EQ(first.hosts(), (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(first.shared_memory(), nullptr);
  group.far().kill(Rank(1));   // a peer of the same host, which far does not serve
  group.near().kill(Rank(2));  // the other way round
  first.context()->progress();
  EXPECT_TRUE(listener.lost.empty());
  group.near().kill(Rank(1));
  group.far().kill(Rank(2));
  first.context()->progress();
  ASSERT_EQ(listener.lost.size(), 2u);
  EXPECT_EQ(listener.lost[0].first, 1);
  EXPECT_EQ(listener.lost[1].first, 2);
}

TEST(Mixed, RefusesWhatIsNotOneRank) {
  const auto near = loopback::make_hub(3);
  const auto far = loopback::make_hub(3);
  const auto smaller = loopback::make_hub(2);
  EXPECT_THROW((void)mixed::create(loopback::create(near, Rank(0)), loopback::create(far, Rank(1))), Error);
  EXPECT_THROW((void)mixed::create(loopback::create(near, Rank(1)), loopback::create(smaller, Rank(1))),
               Error);
  sim::Options network;
  network.world_size = 3;
  EXPECT_THROW(
      (void)mixed::create(loopback::create(near, Rank(2)), sim::create(sim::make_world(network), Rank(2))),
      Error);
}

bool readable(const Context& context) {
  pollfd event{context.event_fd(), POLLIN, 0};
  return ::poll(&event, 1, 0) == 1;
}

TEST(Mixed, EitherSideWakesASleeper) {
  MixedGroup group({0, 0, 1});
  const auto context = group.transports[0]->context();
  for (const int peer : {1, 2}) {
    ASSERT_TRUE(context->arm());
    EXPECT_FALSE(readable(*context));
    group.transports[static_cast<std::size_t>(peer)]->endpoint(Rank(0)).send_control({});
    EXPECT_TRUE(readable(*context)) << peer;
    EXPECT_FALSE(context->arm()) << "there is something to do first";
    EXPECT_TRUE(context->progress());
  }
}

TEST(Mixed, FarIsHeardAfterALongSilence) {
  MixedGroup group({0, 1});
  RecordingListener listener;
  group.transports[0]->set_listener(&listener);
  const auto context = group.transports[0]->context();
  for (int i = 0; i < 1000; ++i) context->progress();
  group.transports[1]->endpoint(Rank(0)).send_control({});
  for (int i = 0; i < 100; ++i) context->progress();
  EXPECT_EQ(listener.control.size(), 1u);
}

TEST(Mixed, GroupsOverTheSameContextsShareOne) {
  const auto hub = loopback::make_hub(2);
  const auto near = loopback::create(hub, Rank(0))->context();
  const auto far = loopback::create(hub, Rank(1))->context();
  const auto shared = mixed::context_over(near, far);
  EXPECT_EQ(mixed::context_over(near, far), shared);
  EXPECT_NE(mixed::context_over(far, near), shared);
}

}  // namespace
}  // namespace ucxring::testing
