// One rank's worker, endpoints and messages in one group over UCX.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.hpp"
#include "transport/ucx/context.hpp"
#include "transport/ucx/endpoint.hpp"
#include "transport/ucx/inbox.hpp"
#include "transport/ucx/join.hpp"
#include "transport/ucx/outbox.hpp"
#include "transport/ucx/worker.hpp"

namespace ucxring::ucx {

/// Owns the group's worker. Outlives its transport for a moment, so that farewells reach peers that are not
/// yet connected or not awake; then the context closes it.
class Membership final : public Polled {
 public:
  /// `worker` is the one whose address `group` holds for `rank`; `choice` as of `describe_choice`.
  Membership(UcpWorker worker, const Protocol& protocol, Rank rank, Group group, std::string choice);

  [[nodiscard]] const GroupState& state() const noexcept { return group_; }
  [[nodiscard]] int world_size() const noexcept { return static_cast<int>(group_.members.size()); }
  /// As `Transport::endpoint`.
  [[nodiscard]] Endpoint& endpoint(Rank peer);
  void set_listener(Listener* listener) { group_.activity |= group_.audience.set(listener); }
  /// Whether any completion or listener call happened since the last call.
  [[nodiscard]] bool take_activity() noexcept { return std::exchange(group_.activity, false); }
  [[nodiscard]] bool flushed() noexcept;

  /// Says goodbye and fails everything posted with `why`. Data under way gets `limit` to end by itself. When
  /// it returns no buffer of the caller is in use; control messages may still be under way. Must not be
  /// called inside `progress()`.
  void leave(const Status& why, std::chrono::milliseconds limit) noexcept;

  bool progress() override;
  [[nodiscard]] bool busy() const noexcept override;
  [[nodiscard]] bool arm() override;
  [[nodiscard]] int event_fd() const noexcept override { return event_fd_; }
  [[nodiscard]] bool farewells_sent() noexcept override;
  void close() noexcept override;

 private:
  template <typename Done>
  void progress_until(Done done, std::chrono::milliseconds limit) noexcept;
  [[nodiscard]] bool uses_buffers() const noexcept;
  [[nodiscard]] bool is_from_group(const Route& route);
  void on_control(Rank source, ControlKind kind, std::span<const std::byte> message);

  static ucs_status_t on_data_message(void* argument, const void* header, std::size_t header_length,
                                      void* data, std::size_t length,
                                      const ucp_am_recv_param_t* param) noexcept;
  static ucs_status_t on_control_message(void* argument, const void* header, std::size_t header_length,
                                         void* data, std::size_t length,
                                         const ucp_am_recv_param_t* param) noexcept;

  UcpWorker worker_;
  int event_fd_ = -1;
  GroupState group_;
  Outbox outbox_;
  Inbox inbox_;
  SelfEndpoint self_;
  std::vector<std::unique_ptr<UcxEndpoint>> peers_;
  Flush flush_;
  std::uint64_t flushed_messages_ = 0;  // of those in outbox_.posted()
  std::uint64_t flushing_messages_ = 0;
};

}  // namespace ucxring::ucx
