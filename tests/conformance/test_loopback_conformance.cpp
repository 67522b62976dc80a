#include <array>

#include "tests/conformance/transport_conformance.hpp"
#include "transport/loopback/loopback.hpp"

namespace ucxring::testing {
namespace {

class LoopbackGroup final : public TransportGroup {
 public:
  explicit LoopbackGroup(int world_size) : hub_(loopback::make_hub(world_size)) {
    for (int rank = 0; rank < world_size; ++rank) transports.push_back(loopback::create(hub_, Rank(rank)));
  }
  bool kill(Rank rank) override {
    hub_->kill(rank);
    return true;
  }

 private:
  std::shared_ptr<loopback::Hub> hub_;
};

std::unique_ptr<TransportGroup> make(int world_size) { return std::make_unique<LoopbackGroup>(world_size); }

INSTANTIATE_TEST_SUITE_P(Loopback, TransportConformance,
                         ::testing::Values(TransportFactory{"one_thread", false, make},
                                           TransportFactory{"threads", true, make}),
                         factory_name);

TEST(Loopback, RefusesWhatCannotBe) {
  EXPECT_THROW((void)loopback::make_hub(0), Error);
  const auto hub = loopback::make_hub(2);
  EXPECT_THROW((void)loopback::create(hub, Rank(2)), Error);
  const auto first = loopback::create(hub, Rank(0));
  EXPECT_THROW((void)loopback::create(hub, Rank(0)), Error);
  EXPECT_THROW(hub->kill(Rank(2)), Error);
}

TEST(Loopback, MessagesWaitForARankThatJoinsLate) {
  const auto hub = loopback::make_hub(2);
  const auto first = loopback::create(hub, Rank(0));
  const auto data = pattern(8, 1);
  Completion sent;
  EXPECT_TRUE(first->endpoint(Rank(1)).send(ConstBuffer(data.data(), 8), Tag{}, 1, sent).ok());
  const auto second = loopback::create(hub, Rank(1));
  std::vector<std::byte> target(8);
  Completion received;
  EXPECT_TRUE(second->endpoint(Rank(0)).receive_into({target.data(), 8}, Tag{}, 1, received).ok());
  second->context()->progress();
  EXPECT_EQ(received.state, Completion::State::done);
  EXPECT_EQ(target, data);
}

TEST(Loopback, GoodLeaverIsHeardOfOnlyWhereSomethingWaits) {
  const auto hub = loopback::make_hub(3);
  std::vector<std::unique_ptr<Transport>> ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.push_back(loopback::create(hub, Rank(rank)));
  std::array<RecordingListener, 3> listeners;
  for (std::size_t rank = 0; rank < 3; ++rank) ranks[rank]->set_listener(&listeners[rank]);
  const auto data = pattern(8, 1);
  std::vector<std::byte> target(8);
  std::array<Completion, 3> done;
  EXPECT_TRUE(ranks[2]->endpoint(Rank(0)).send(ConstBuffer(data.data(), 8), Tag{}, 1, done[0]).ok());
  EXPECT_TRUE(ranks[1]->endpoint(Rank(2)).receive_into({target.data(), 8}, Tag{}, 1, done[1]).ok());
  ranks[2].reset();
  for (const std::size_t rank : {0u, 1u}) ranks[rank]->context()->progress();
  EXPECT_TRUE(listeners[0].lost.empty());
  EXPECT_EQ(listeners[1].lost.size(), 1u);
  EXPECT_EQ(done[1].status.code(), ErrorCode::peer_lost);
  EXPECT_TRUE(ranks[0]->endpoint(Rank(2)).receive_into({target.data(), 8}, Tag{}, 1, done[2]).ok());
  EXPECT_EQ(done[2].state, Completion::State::done) << "what arrived before is still there";
  EXPECT_EQ(ranks[0]->endpoint(Rank(2)).receive_into({}, Tag{}, 1, done[2]).code(), ErrorCode::peer_lost);
}

}  // namespace
}  // namespace ucxring::testing
