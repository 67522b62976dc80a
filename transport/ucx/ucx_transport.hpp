// The Transport over UCX.
#pragma once

#include <memory>

#include "transport/transport.hpp"
#include "transport/ucx/context.hpp"
#include "transport/ucx/membership.hpp"

namespace ucxring::ucx {

/// One rank's membership in one group. Must not be aborted or destroyed from inside `Context::progress()`.
class UcxTransport final : public Transport {
 public:
  UcxTransport(std::shared_ptr<UcxContext> context, std::shared_ptr<Membership> membership);
  ~UcxTransport() override;

  [[nodiscard]] std::string_view name() const noexcept override { return "ucx"; }
  [[nodiscard]] Rank rank() const noexcept override { return membership_->state().rank; }
  [[nodiscard]] int world_size() const noexcept override { return membership_->world_size(); }
  [[nodiscard]] const std::shared_ptr<Context>& context() const noexcept override { return base_context_; }
  Endpoint& endpoint(Rank peer) override { return membership_->endpoint(peer); }
  void set_listener(Listener* listener) override { membership_->set_listener(listener); }
  void abort(const Status& why) noexcept override;
  [[nodiscard]] bool flushed() const noexcept override { return membership_->flushed(); }
  [[nodiscard]] bool take_activity() noexcept override { return membership_->take_activity(); }

 private:
  void leave(const Status& why, std::chrono::milliseconds limit) noexcept;

  std::shared_ptr<UcxContext> context_;
  std::shared_ptr<Context> base_context_;
  std::shared_ptr<Membership> membership_;
};

}  // namespace ucxring::ucx
