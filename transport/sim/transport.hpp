// One rank of a simulated network.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transport/audience.hpp"
#include "transport/endpoint_table.hpp"
#include "transport/gone_peers.hpp"
#include "transport/matcher.hpp"
#include "transport/sim/world.hpp"

namespace ucxring::sim {

class SimTransport final : public Transport {
 public:
  SimTransport(std::shared_ptr<SimWorld> world, Rank rank);
  ~SimTransport() override;

  [[nodiscard]] std::string_view name() const noexcept override { return "sim"; }
  [[nodiscard]] Rank rank() const noexcept override { return rank_; }
  [[nodiscard]] int world_size() const noexcept override { return world_->world_size(); }
  [[nodiscard]] const std::shared_ptr<Context>& context() const noexcept override { return context_; }
  Endpoint& endpoint(Rank peer) override;
  [[nodiscard]] std::vector<int> hosts() const override { return world_->hosts(); }
  void set_listener(Listener* listener) override { activity_ |= audience_.set(listener); }
  void abort(const Status& why) noexcept override;
  [[nodiscard]] bool flushed() const noexcept override { return sends_.size() == 0; }

  // Called by the endpoints.
  Status post_send(Rank peer, ConstBuffer data, Tag tag, Stamp stamp, Completion& done);
  Status post_receive(Rank peer, const PostedReceive& receive);
  void post_control(Rank peer, std::span<const std::byte> message);

  // Called by the world.
  void handle(Event& event);
  /// Whether this rank has an endpoint to `peer`.
  [[nodiscard]] bool connected(Rank peer) const { return endpoints_.made(peer); }
  /// This rank was killed.
  void die(const Status& why);

 private:
  struct Send {
    ConstBuffer data;
    Completion* done = nullptr;
  };

  void arrived(Event& event);
  void consume(const PostedReceive& receive, Event& event);
  void finish_transfer(const Event& event);
  [[nodiscard]] std::optional<Send> take_send(Rank peer, std::uint64_t number);
  void lose(Rank peer, const Status& why, bool killed);
  void fail_all(const Status& why);

  std::shared_ptr<SimWorld> world_;
  Rank rank_;
  std::shared_ptr<Context> context_;
  EndpointTable<SimTransport> endpoints_;
  Matcher<Event> matcher_;
  MatchTable<Send> sends_;               // rendezvous sends in flight, by receiver and number
  MatchTable<PostedReceive> transfers_;  // matched receives whose bytes are on the way, by sender and number
  std::uint64_t next_send_ = 0;
  GonePeers gone_;
  Status failure_;
  Audience audience_;
};

}  // namespace ucxring::sim
