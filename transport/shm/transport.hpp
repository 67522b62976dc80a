// The transport between ranks of one host.
#pragma once

#include <memory>
#include <vector>

#include "transport/endpoint_table.hpp"
#include "transport/shm/context.hpp"
#include "transport/shm/inbox.hpp"
#include "transport/shm/neighbours.hpp"
#include "transport/shm/outbox.hpp"

namespace ucxring::shm {

class ShmTransport final : public Transport, public SharedMemory {
 public:
  /// `neighbours` is what `meet` found with the region of `outbox`.
  ShmTransport(std::shared_ptr<ShmContext> context, Rank rank, int world_size, std::unique_ptr<Outbox> outbox,
               Neighbours neighbours);
  ~ShmTransport() override;

  [[nodiscard]] std::string_view name() const noexcept override { return "shm"; }
  [[nodiscard]] Rank rank() const noexcept override { return rank_; }
  [[nodiscard]] int world_size() const noexcept override { return world_size_; }
  [[nodiscard]] const std::shared_ptr<Context>& context() const noexcept override { return base_context_; }
  Endpoint& endpoint(Rank peer) override;
  [[nodiscard]] std::vector<int> hosts() const override { return neighbours_.hosts; }
  [[nodiscard]] SharedMemory* shared_memory() noexcept override { return this; }
  void set_listener(Listener* listener) override { activity_ |= inbox_.set_listener(listener); }
  void abort(const Status& why) noexcept override;
  [[nodiscard]] bool flushed() const noexcept override { return outbox_->flushed(); }

  [[nodiscard]] bool reaches(Rank peer) const noexcept override { return outbox_->reaches(peer); }
  [[nodiscard]] int cores() const noexcept override { return neighbours_.cores; }
  [[nodiscard]] bool oversubscribed() const noexcept override { return neighbours_.oversubscribed; }
  [[nodiscard]] std::size_t max_message() const noexcept override { return outbox_->max_message(); }
  [[nodiscard]] std::byte* reserve(std::size_t bytes) noexcept override { return outbox_->reserve(bytes); }
  [[nodiscard]] bool commit(const std::byte* room, std::size_t bytes, std::span<const Recipient> recipients,
                            Tag tag, Stamp stamp) noexcept override {
    return outbox_->commit(room, bytes, recipients, tag, stamp);
  }
  [[nodiscard]] bool publish(ConstBuffer data, std::span<const Recipient> recipients, Tag tag,
                             Stamp stamp) noexcept override {
    return outbox_->publish(data, recipients, tag, stamp);
  }
  [[nodiscard]] bool refers(ConstBuffer data) const noexcept override { return outbox_->refers(data); }
  [[nodiscard]] bool refer(ConstBuffer data, std::span<const Recipient> recipients, Tag tag, Stamp stamp,
                           Completion& done) override {
    return outbox_->refer(data, recipients, tag, stamp, done);
  }
  [[nodiscard]] Message peek(Rank peer, Tag tag) noexcept override { return inbox_.peek(peer, tag); }
  bool release(Rank peer, Tag tag) noexcept override { return inbox_.release(peer, tag); }
  [[nodiscard]] bool overlooked() const noexcept override { return inbox_.overlooked(); }
  [[nodiscard]] const Status& gone(Rank peer) const noexcept override { return inbox_.gone(peer); }
  bool stay_awake() noexcept override { return context_->stay_awake(); }

  // Called by the endpoints.
  Status post_send(Rank peer, ConstBuffer data, Tag tag, Stamp stamp, Completion& done);
  Status post_receive(Rank peer, const PostedReceive& receive);
  void post_control(Rank peer, std::span<const std::byte> message);

  // Called by the context.
  [[nodiscard]] const Neighbours& neighbours() const noexcept { return neighbours_; }
  bool poll();
  [[nodiscard]] bool has_news();
  void set_sleeping(bool sleeping) noexcept {
    outbox_->view().header().sleeping.store(sleeping ? 1 : 0, std::memory_order_relaxed);
  }
  /// `neighbour` has died.
  void bury(const Neighbour& neighbour);

 private:
  void connect_peers();
  [[nodiscard]] OutboxView<const std::byte> view_of(const RegionView& region) const;

  std::shared_ptr<ShmContext> context_;
  std::shared_ptr<Context> base_context_;
  Rank rank_;
  int world_size_;
  Neighbours neighbours_;
  std::unique_ptr<Outbox> outbox_;
  Inbox inbox_;
  EndpointTable<ShmTransport> endpoints_;
  Status failure_;
};

}  // namespace ucxring::shm
