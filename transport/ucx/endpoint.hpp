// The ways to other ranks, and to oneself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/transport.hpp"
#include "transport/ucx/group_state.hpp"
#include "transport/ucx/inbox.hpp"
#include "transport/ucx/outbox.hpp"

namespace ucxring::ucx {

/// One peer, over a UCP endpoint that is made by the first post in either direction.
class UcxEndpoint final : public Endpoint {
 public:
  UcxEndpoint(GroupState& group, Outbox& outbox, Inbox& inbox, Rank peer) noexcept
      : group_(group), outbox_(outbox), inbox_(inbox), peer_(peer) {}

  Status send(ConstBuffer data, Tag tag, Stamp stamp, Completion& done) override;
  Status receive_into(Buffer target, Tag tag, Stamp stamp, Completion& done) override;
  Status receive_apply(Sink sink, std::size_t bytes, Tag tag, Stamp stamp, Completion& done) override;
  void send_control(std::span<const std::byte> message) override;

  [[nodiscard]] Rank rank() const noexcept { return peer_; }
  [[nodiscard]] ucp_ep_h handle() const noexcept { return handle_.get(); }

  /// Connects if that was not tried yet. The failure is what any post to this peer gets.
  Status open();
  /// Whether this rank reached for the peer and the peer has neither left nor been lost since.
  [[nodiscard]] bool is_connected() const noexcept { return state_ == State::connected; }
  /// The peer said that it leaves: nothing more will come, and that is no fault.
  void on_goodbye();
  /// Tells the peer that this rank leaves.
  void say_goodbye();
  /// Closes at once; what is queued is cancelled.
  void close() noexcept {
    if (state_ == State::connected) state_ = State::lost;
    handle_.reset();
  }
  /// What a UCX failure in dealing with this peer means.
  [[nodiscard]] Status explain(ucs_status_t status) const;
  [[nodiscard]] Status explain_connect(ucs_status_t status) const;

 private:
  enum class State : std::uint8_t { fresh, connected, left, lost };

  Status connect();
  Status post(const PostedReceive& receive);
  void on_lost(ucs_status_t status);
  static void on_error(void* argument, ucp_ep_h, ucs_status_t status) noexcept;

  GroupState& group_;
  Outbox& outbox_;
  Inbox& inbox_;
  Rank peer_;
  State state_ = State::fresh;
  Status failure_;  // in the states left and lost
  UcpEndpoint handle_;
};

/// This rank itself. Messages are handed over by the next `deliver()`, not inside `send`, so that completions
/// and listener calls happen where they do for other peers.
class SelfEndpoint final : public Endpoint {
 public:
  SelfEndpoint(GroupState& group, Inbox& inbox) noexcept : group_(group), inbox_(inbox) {}

  Status send(ConstBuffer data, Tag tag, Stamp stamp, Completion& done) override;
  Status receive_into(Buffer target, Tag tag, Stamp stamp, Completion& done) override;
  Status receive_apply(Sink sink, std::size_t bytes, Tag tag, Stamp stamp, Completion& done) override;
  void send_control(std::span<const std::byte> message) override;

  [[nodiscard]] bool busy() const noexcept { return !queue_.empty() || !controls_.empty(); }
  /// Hands over what was sent; true when there was anything.
  bool deliver();
  void fail_all(const Status& why) noexcept;

 private:
  struct Local {
    ConstBuffer data;
    Tag tag;
    Stamp stamp = 0;
    Completion* done = nullptr;
  };

  GroupState& group_;
  Inbox& inbox_;
  std::vector<Local> queue_;
  std::vector<Local> delivering_;
  std::vector<std::vector<std::byte>> controls_;
};

}  // namespace ucxring::ucx
