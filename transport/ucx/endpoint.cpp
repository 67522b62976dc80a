#include "transport/ucx/endpoint.hpp"

#include <fmt/format.h>

#include <utility>

#include "transport/ucx/advice.hpp"
#include "transport/ucx/status.hpp"

namespace ucxring::ucx {
namespace {

Status require_host(MemoryKind kind) {
  if (kind == MemoryKind::host) return {};
  return Status(ErrorCode::unsupported,
                "the UCX transport carries host memory only; copy the tensor to the host");
}

void require_control_size(std::size_t bytes) {
  if (bytes <= Endpoint::kMaxControlBytes) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("a control message of {} bytes; at most {} are possible", bytes,
                          Endpoint::kMaxControlBytes));
}

/// Failures of a call that say nothing about the peer.
bool is_local_failure(ucs_status_t status) {
  return status == UCS_ERR_NO_MEMORY || status == UCS_ERR_INVALID_PARAM || status == UCS_ERR_UNSUPPORTED ||
         status == UCS_ERR_EXCEEDS_LIMIT || status == UCS_ERR_NOT_IMPLEMENTED;
}

}  // namespace

Status UcxEndpoint::send(ConstBuffer data, Tag tag, Stamp stamp, Completion& done) {
  if (Status status = require_host(data.kind); !status.ok()) return status;
  if (Status status = open(); !status.ok()) return status;
  return outbox_.send(*this, data, tag, stamp, done);
}

Status UcxEndpoint::receive_into(Buffer target, Tag tag, Stamp stamp, Completion& done) {
  if (Status status = require_host(target.kind); !status.ok()) return status;
  return post(PostedReceive::into(target, tag, stamp, done));
}

Status UcxEndpoint::receive_apply(Sink sink, std::size_t bytes, Tag tag, Stamp stamp, Completion& done) {
  return post(PostedReceive::applying(sink, bytes, tag, stamp, done));
}

Status UcxEndpoint::post(const PostedReceive& receive) {
  const Status status = open();
  if (!group_.aborted.ok()) return group_.aborted;
  return inbox_.post(peer_, receive, status);
}

void UcxEndpoint::send_control(std::span<const std::byte> message) {
  require_control_size(message.size());
  if (!open().ok()) return;
  // A failure to send reaches the listener through `on_error`.
  static_cast<void>(outbox_.send_control(*this, ControlKind::user, message));
}

Status UcxEndpoint::open() {
  if (state_ == State::connected && group_.aborted.ok()) [[likely]]
    return {};
  if (!group_.aborted.ok()) return group_.aborted;
  return state_ == State::fresh ? connect() : failure_;
}

Status UcxEndpoint::connect() {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(
      group_.members[static_cast<std::size_t>(peer_.value)].address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {&UcxEndpoint::on_error, this};
  ucp_ep_h endpoint = nullptr;
  const ucs_status_t status = ucp_ep_create(group_.worker, &params, &endpoint);
  if (status != UCS_OK) {
    failure_ = explain_connect(status);
    state_ = State::lost;
    return failure_;
  }
  handle_ = UcpEndpoint(endpoint);
  state_ = State::connected;
  return outbox_.send_control(*this, ControlKind::hello, {});
}

Status UcxEndpoint::explain_connect(ucs_status_t status) const {
  Status plain = translate(status, fmt::format("connecting to {}", group_.describe(peer_)), peer_.value);
  if (status != UCS_ERR_UNREACHABLE) return plain;
  return Status(plain.code(),
                fmt::format("{}: nothing that this rank may use leads there. It has {}; UCX offers {} here. "
                            "Both ranks need a transport in common, and a network interface for it",
                            plain.message(), group_.choice, available_transports()),
                peer_.value);
}

void UcxEndpoint::on_goodbye() {
  if (state_ == State::lost || state_ == State::left) return;
  state_ = State::left;
  if (!group_.aborted.ok()) return;
  failure_ =
      Status(ErrorCode::peer_lost, fmt::format("{} has left the group", group_.describe(peer_)), peer_.value);
  inbox_.fail_peer(peer_, failure_);
  group_.activity = true;
  group_.audience.on_peer_left(peer_, failure_);
}

void UcxEndpoint::say_goodbye() {
  if (state_ == State::connected) static_cast<void>(outbox_.send_control(*this, ControlKind::goodbye, {}));
}

void UcxEndpoint::on_error(void* argument, ucp_ep_h, ucs_status_t status) noexcept {
  static_cast<UcxEndpoint*>(argument)->on_lost(status);
}

void UcxEndpoint::on_lost(ucs_status_t status) {
  if (state_ != State::connected) return;
  if (!group_.aborted.ok()) {
    state_ = State::lost;
    return;
  }
  failure_ = explain(status);
  state_ = State::lost;
  inbox_.fail_peer(peer_, failure_);
  group_.activity = true;
  group_.audience.on_peer_lost(peer_, failure_);
}

Status UcxEndpoint::explain(ucs_status_t status) const {
  if (!group_.aborted.ok()) return group_.aborted;
  if (!failure_.ok()) return failure_;
  if (is_local_failure(status)) {
    return translate(status, fmt::format("sending to {}", group_.describe(peer_)), peer_.value);
  }
  return Status(ErrorCode::peer_lost,
                fmt::format("lost {}: it died or the network to it failed (UCX says \"{}\")",
                            group_.describe(peer_), ucs_status_string(status)),
                peer_.value);
}

Status SelfEndpoint::send(ConstBuffer data, Tag tag, Stamp stamp, Completion& done) {
  if (!group_.aborted.ok()) return group_.aborted;
  if (Status status = require_host(data.kind); !status.ok()) return status;
  done.start();
  queue_.push_back({data, tag, stamp, &done});
  return {};
}

Status SelfEndpoint::receive_into(Buffer target, Tag tag, Stamp stamp, Completion& done) {
  if (!group_.aborted.ok()) return group_.aborted;
  if (Status status = require_host(target.kind); !status.ok()) return status;
  return inbox_.post(group_.rank, PostedReceive::into(target, tag, stamp, done), {});
}

Status SelfEndpoint::receive_apply(Sink sink, std::size_t bytes, Tag tag, Stamp stamp, Completion& done) {
  if (!group_.aborted.ok()) return group_.aborted;
  return inbox_.post(group_.rank, PostedReceive::applying(sink, bytes, tag, stamp, done), {});
}

void SelfEndpoint::send_control(std::span<const std::byte> message) {
  require_control_size(message.size());
  if (group_.aborted.ok()) controls_.emplace_back(message.begin(), message.end());
}

bool SelfEndpoint::deliver() {
  if (!busy()) return false;
  // The listener may send again meanwhile.
  std::swap(queue_, delivering_);
  const auto controls = std::exchange(controls_, {});
  for (const Local& local : delivering_) {
    inbox_.arrive_local(local.tag, local.stamp, {local.data.data, local.data.bytes});
    local.done->succeed();
  }
  delivering_.clear();
  for (const auto& control : controls) {
    if (group_.aborted.ok()) group_.audience.on_control(group_.rank, control);
  }
  group_.activity = true;
  return true;
}

void SelfEndpoint::fail_all(const Status& why) noexcept {
  for (const Local& local : queue_) local.done->fail(why);
  queue_.clear();
  controls_.clear();
}

}  // namespace ucxring::ucx
