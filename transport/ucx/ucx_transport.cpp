#include "transport/ucx/ucx_transport.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "transport/base/deadline.hpp"

namespace ucxring::ucx {
namespace {

using namespace std::chrono_literals;

constexpr auto kAbortFlush = 100ms;
constexpr auto kLeaveFlush = 1000ms;
/// How long cancelled operations get to end by themselves before the worker goes, which ends them too.
constexpr auto kCancelLimit = 100ms;

}  // namespace

UcxTransport::UcxTransport(std::shared_ptr<UcxContext> context, UcpWorker worker, Rank rank, Group group)
    : context_(std::move(context)),
      base_context_(context_),
      worker_(std::move(worker)),
      event_fd_(event_fd_of(worker_.get())),
      group_{worker_.get(),
             context_->protocol(),
             rank,
             group.secret,
             std::move(group.members),
             nullptr,
             {},
             false,
             {}},
      outbox_(group_),
      inbox_(group_),
      self_(group_, inbox_) {
  for (int peer = 0; peer < world_size(); ++peer) {
    peers_.push_back(std::make_unique<UcxEndpoint>(group_, outbox_, inbox_, Rank(peer)));
  }
  set_am_handler(worker_.get(), static_cast<unsigned>(MessageKind::data), &UcxTransport::on_data_message,
                 this);
  set_am_handler(worker_.get(), static_cast<unsigned>(MessageKind::control),
                 &UcxTransport::on_control_message, this);
  context_->add(*this);
}

UcxTransport::~UcxTransport() {
  if (group_.aborted.ok()) leave(Status(ErrorCode::peer_lost, "this rank has left the group"), kLeaveFlush);
}

Endpoint& UcxTransport::endpoint(Rank peer) {
  if (peer == group_.rank) return self_;
  if (peer.value < 0 || peer.value >= world_size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("no rank {} in a group of {}", peer.value, world_size()));
  }
  return *peers_[static_cast<std::size_t>(peer.value)];
}

bool UcxTransport::progress() {
  if (!worker_) return false;
  const bool moved = self_.deliver() | (ucp_worker_progress(worker_.get()) != 0);
  activity_ |= std::exchange(group_.activity, false);
  return moved;
}

bool UcxTransport::busy() const noexcept {
  return outbox_.outstanding() > 0 || inbox_.busy() || self_.busy();
}

bool UcxTransport::arm() { return !self_.busy() && ucp_worker_arm(worker_.get()) == UCS_OK; }

bool UcxTransport::flushed() const noexcept {
  if (!worker_) return true;
  if (self_.busy() || outbox_.outstanding() > 0) return false;
  if (flushed_messages_ == outbox_.posted()) return true;
  if (flushing_messages_ == flushed_messages_) flushing_messages_ = outbox_.posted();
  if (!flush_.poll(worker_.get())) return false;
  flushed_messages_ = flushing_messages_;
  return flushed_messages_ == outbox_.posted();
}

void UcxTransport::abort(const Status& why) noexcept {
  if (group_.aborted.ok()) leave(why.ok() ? Status(ErrorCode::internal, "aborted") : why, kAbortFlush);
}

void UcxTransport::leave(const Status& why, Limit flush_limit) noexcept {
  for (auto& peer : peers_) peer->say_goodbye();
  group_.aborted = why;
  inbox_.fail_all(why);
  self_.fail_all(why);
  Flush flush;
  progress_until([&] { return flush.poll(worker_.get()); }, flush_limit);
  flush.reset();
  flush_.reset();
  for (auto& peer : peers_) peer->close();
  progress_until([&] { return outbox_.outstanding() == 0 && inbox_.transfers() == 0; }, kCancelLimit);
  context_->remove(*this);
  worker_.reset();
  outbox_.fail_all(why);
  inbox_.fail_cancelled(why);
  activity_ = true;
}

template <typename Done>
void UcxTransport::progress_until(Done done, Limit limit) noexcept {
  const Deadline deadline = Deadline::after(limit);
  while (!done() && !deadline.passed()) ucp_worker_progress(worker_.get());
}

bool UcxTransport::is_from_group(const Route& route) noexcept {
  const auto self = static_cast<std::uint32_t>(group_.rank.value);
  const bool known = route.secret == group_.secret && route.destination == self && route.source != self &&
                     route.source < group_.members.size();
  if (!known) group_.warn_dropped("its sender is not in this group");
  return known;
}

ucs_status_t UcxTransport::on_data_message(void* argument, const void* header, std::size_t header_length,
                                           void* data, std::size_t length,
                                           const ucp_am_recv_param_t* param) noexcept {
  auto& self = *static_cast<UcxTransport*>(argument);
  if (!self.group_.aborted.ok()) return UCS_OK;
  try {
    const auto known = read_header<DataHeader>(header, header_length);
    if (!known || !self.is_from_group(known->route)) return UCS_OK;
    return self.inbox_.arrive(Rank(static_cast<int>(known->route.source)), *known, data, length,
                              param->recv_attr);
  } catch (const std::exception& error) {
    self.group_.warn_dropped(error.what());
    return UCS_OK;
  }
}

ucs_status_t UcxTransport::on_control_message(void* argument, const void* header, std::size_t header_length,
                                              void* data, std::size_t length,
                                              const ucp_am_recv_param_t* param) noexcept {
  auto& self = *static_cast<UcxTransport*>(argument);
  if (!self.group_.aborted.ok() || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  try {
    const auto known = read_header<ControlHeader>(header, header_length);
    if (!known || !self.is_from_group(known->route)) return UCS_OK;
    self.on_control(Rank(static_cast<int>(known->route.source)), static_cast<ControlKind>(known->kind),
                    {static_cast<const std::byte*>(data), length});
  } catch (const std::exception& error) {
    self.group_.warn_dropped(error.what());
  }
  return UCS_OK;
}

void UcxTransport::on_control(Rank source, ControlKind kind, std::span<const std::byte> message) {
  UcxEndpoint& peer = *peers_[static_cast<std::size_t>(source.value)];
  switch (kind) {
    case ControlKind::hello:
      static_cast<void>(peer.open());
      return;
    case ControlKind::goodbye:
      peer.on_goodbye();
      return;
    case ControlKind::user:
      group_.activity = true;
      if (Listener* listener = group_.audience()) listener->on_control(source, message);
      return;
  }
  group_.warn_dropped(fmt::format("{} sent an unknown control message", group_.describe(source)));
}

}  // namespace ucxring::ucx
