#include "transport/ucx/ucx_transport.hpp"

#include <utility>

namespace ucxring::ucx {
namespace {

using namespace std::chrono_literals;

/// How long data under way gets to end by itself. What does not end takes its connection along, and with it
/// the reason of a failure that the peer has yet to read.
constexpr auto kAbortLimit = 300ms;
constexpr auto kLeaveLimit = 1000ms;

}  // namespace

UcxTransport::UcxTransport(std::shared_ptr<UcxContext> context, std::shared_ptr<Membership> membership)
    : context_(std::move(context)), base_context_(context_), membership_(std::move(membership)) {
  context_->add(membership_);
}

UcxTransport::~UcxTransport() {
  membership_->set_listener(nullptr);
  leave(Status(ErrorCode::peer_lost, "this rank has left the group", rank().value), kLeaveLimit);
}

void UcxTransport::abort(const Status& why) noexcept {
  leave(why.ok() ? Status(ErrorCode::internal, "aborted") : why, kAbortLimit);
}

void UcxTransport::leave(const Status& why, std::chrono::milliseconds limit) noexcept {
  if (!membership_->state().aborted.ok()) return;
  membership_->leave(why, limit);
  context_->retire(*membership_);
}

}  // namespace ucxring::ucx
