// One rank of a loopback group.
#pragma once

#include <memory>
#include <vector>

#include "transport/audience.hpp"
#include "transport/endpoint_table.hpp"
#include "transport/gone_peers.hpp"
#include "transport/loopback/hub.hpp"
#include "transport/matcher.hpp"

namespace ucxring::loopback {

class LoopbackTransport;

/// Polls the inbox of one rank. Outlives its transport when others hold it, and is then idle.
class LoopbackContext final : public Context {
 public:
  LoopbackContext(std::shared_ptr<SharedHub> hub, Rank rank) : hub_(std::move(hub)), rank_(rank) {}
  bool progress() override;
  [[nodiscard]] bool arm() override { return hub_->port(rank_).arm(); }
  [[nodiscard]] int event_fd() const noexcept override { return hub_->port(rank_).event_fd(); }

  /// Who handles the messages; null when the transport is gone.
  void set_owner(LoopbackTransport* owner) noexcept { owner_ = owner; }

 private:
  std::shared_ptr<SharedHub> hub_;
  Rank rank_;
  LoopbackTransport* owner_ = nullptr;
  std::vector<Message> batch_;
};

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<SharedHub> hub, Rank rank);
  ~LoopbackTransport() override;

  [[nodiscard]] std::string_view name() const noexcept override { return "loopback"; }
  [[nodiscard]] Rank rank() const noexcept override { return rank_; }
  [[nodiscard]] int world_size() const noexcept override { return hub_->world_size(); }
  [[nodiscard]] const std::shared_ptr<Context>& context() const noexcept override { return context_; }
  Endpoint& endpoint(Rank peer) override { return endpoints_.get(*this, peer); }
  [[nodiscard]] std::vector<int> hosts() const override { return hub_->hosts(); }
  void set_listener(Listener* listener) override { activity_ |= audience_.set(listener); }
  void abort(const Status& why) noexcept override;
  [[nodiscard]] bool flushed() const noexcept override { return sends_.size() == 0; }

  // Called by the endpoints.
  Status post_send(Rank peer, ConstBuffer data, Tag tag, Stamp stamp, Completion& done);
  Status post_receive(Rank peer, const PostedReceive& receive);
  void post_control(Rank peer, std::span<const std::byte> message);

  /// Called by the context for each message of the inbox.
  void handle(Message message);

 private:
  void arrived(Message message);
  void consume(const PostedReceive& receive, Message& message);
  void acknowledge(const Message& message);
  void lose(Rank peer, const Status& why, bool killed);
  void fail_all(const Status& why);

  std::shared_ptr<SharedHub> hub_;
  Rank rank_;
  std::shared_ptr<LoopbackContext> own_context_;
  std::shared_ptr<Context> context_;
  EndpointTable<LoopbackTransport> endpoints_;
  Matcher<Message> matcher_;
  MatchTable<Completion*> sends_;  // rendezvous sends in flight, by peer and number
  std::uint64_t next_send_ = 0;
  GonePeers gone_;
  Status failure_;
  Audience audience_;
};

}  // namespace ucxring::loopback
