// One rank's membership in one group over UCX.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "transport/transport.hpp"
#include "transport/ucx/context.hpp"
#include "transport/ucx/endpoint.hpp"
#include "transport/ucx/inbox.hpp"
#include "transport/ucx/join.hpp"
#include "transport/ucx/outbox.hpp"
#include "transport/ucx/worker.hpp"

namespace ucxring::ucx {

/// Owns the group's worker. Must not be aborted or destroyed from inside `Context::progress()`.
class UcxTransport final : public Transport, public Polled {
 public:
  /// `worker` is the one whose address `group` holds for `rank`.
  UcxTransport(std::shared_ptr<UcxContext> context, UcpWorker worker, Rank rank, Group group);
  ~UcxTransport() override;

  [[nodiscard]] std::string_view name() const noexcept override { return "ucx"; }
  [[nodiscard]] Rank rank() const noexcept override { return group_.rank; }
  [[nodiscard]] int world_size() const noexcept override { return static_cast<int>(group_.members.size()); }
  [[nodiscard]] const std::shared_ptr<Context>& context() const noexcept override { return base_context_; }
  Endpoint& endpoint(Rank peer) override;
  void set_listener(Listener* listener) noexcept override { group_.listener = listener; }
  void abort(const Status& why) noexcept override;
  [[nodiscard]] bool flushed() const noexcept override;

  bool progress() override;
  [[nodiscard]] bool busy() const noexcept override;
  [[nodiscard]] bool arm() override;
  [[nodiscard]] int event_fd() const noexcept override { return event_fd_; }

 private:
  using Limit = std::chrono::milliseconds;

  void leave(const Status& why, Limit flush_limit) noexcept;
  template <typename Done>
  void progress_until(Done done, Limit limit) noexcept;
  [[nodiscard]] bool is_from_group(const Route& route) noexcept;
  void on_control(Rank source, ControlKind kind, std::span<const std::byte> message);

  static ucs_status_t on_data_message(void* argument, const void* header, std::size_t header_length,
                                      void* data, std::size_t length,
                                      const ucp_am_recv_param_t* param) noexcept;
  static ucs_status_t on_control_message(void* argument, const void* header, std::size_t header_length,
                                         void* data, std::size_t length,
                                         const ucp_am_recv_param_t* param) noexcept;

  std::shared_ptr<UcxContext> context_;
  std::shared_ptr<Context> base_context_;
  UcpWorker worker_;
  int event_fd_ = -1;
  GroupState group_;
  Outbox outbox_;
  Inbox inbox_;
  SelfEndpoint self_;
  std::vector<std::unique_ptr<UcxEndpoint>> peers_;
  mutable Flush flush_;
  mutable std::uint64_t flushed_messages_ = 0;  // of those in outbox_.posted()
  mutable std::uint64_t flushing_messages_ = 0;
};

}  // namespace ucxring::ucx
