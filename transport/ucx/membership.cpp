#include "transport/ucx/membership.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "transport/base/deadline.hpp"

namespace ucxring::ucx {
namespace {

using namespace std::chrono_literals;

/// How long cancelled operations get to end by themselves before the worker goes, which ends them too.
constexpr auto kCancelLimit = 100ms;

}  // namespace

Membership::Membership(UcpWorker worker, const Protocol& protocol, Rank rank, Group group, std::string choice)
    : worker_(std::move(worker)),
      event_fd_(event_fd_of(worker_.get())),
      group_{worker_.get(),    protocol, rank, group.secret, std::move(group.members), {}, {}, false, {},
             std::move(choice)},
      outbox_(group_),
      inbox_(group_),
      self_(group_, inbox_) {
  for (int peer = 0; peer < world_size(); ++peer) {
    peers_.push_back(std::make_unique<UcxEndpoint>(group_, outbox_, inbox_, Rank(peer)));
  }
  set_am_handler(worker_.get(), static_cast<unsigned>(MessageKind::data), &Membership::on_data_message, this);
  set_am_handler(worker_.get(), static_cast<unsigned>(MessageKind::control), &Membership::on_control_message,
                 this);
}

Endpoint& Membership::endpoint(Rank peer) {
  if (peer == group_.rank) return self_;
  if (peer.value < 0 || peer.value >= world_size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("no rank {} in a group of {}", peer.value, world_size()));
  }
  return *peers_[static_cast<std::size_t>(peer.value)];
}

bool Membership::progress() {
  if (!worker_) return false;
  const bool delivered = self_.deliver();
  return ucp_worker_progress(worker_.get()) != 0 || delivered;
}

bool Membership::busy() const noexcept { return outbox_.outstanding() > 0 || inbox_.busy() || self_.busy(); }

// A progress call that takes a step in the handshake of a new TCP connection counts as nothing moved, and
// only one that finds nothing at all makes UCX watch that connection again: sleeping after the former would
// be for ever.
bool Membership::arm() {
  constexpr int kQuietCalls = 2;
  if (!worker_) return true;
  for (int call = 0; call < kQuietCalls; ++call) {
    if (ucp_worker_progress(worker_.get()) != 0) return false;
  }
  return !self_.busy() && ucp_worker_arm(worker_.get()) == UCS_OK;
}

bool Membership::flushed() noexcept {
  if (!worker_) return true;
  if (self_.busy() || outbox_.outstanding() > 0) return false;
  if (flushed_messages_ == outbox_.posted()) return true;
  if (flushing_messages_ == flushed_messages_) flushing_messages_ = outbox_.posted();
  if (!flush_.poll(worker_.get())) return false;
  flushed_messages_ = flushing_messages_;
  return flushed_messages_ == outbox_.posted();
}

// A connection that closes while bytes it never read are there is reset, and the reset may overtake what was
// sent on it: the reason of a failure. So this rank stays until its peers have gone, too.
bool Membership::farewells_sent() noexcept {
  return flushed() &&
         std::none_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer->is_connected(); });
}

bool Membership::uses_buffers() const noexcept {
  return outbox_.outstanding_data() > 0 || inbox_.transfers() > 0;
}

void Membership::leave(const Status& why, std::chrono::milliseconds limit) noexcept {
  for (auto& peer : peers_) peer->say_goodbye();
  group_.aborted = why;
  inbox_.fail_all(why);
  self_.fail_all(why);
  progress_until([this] { return !uses_buffers(); }, limit);
  if (!uses_buffers()) return;
  outbox_.close_unfinished();
  progress_until([this] { return !uses_buffers(); }, kCancelLimit);
  if (uses_buffers()) close();
}

void Membership::close() noexcept {
  flush_.reset();
  for (auto& peer : peers_) peer->close();
  worker_.reset();
  event_fd_ = -1;
  outbox_.fail_all(group_.aborted);
  inbox_.fail_cancelled(group_.aborted);
}

template <typename Done>
void Membership::progress_until(Done done, std::chrono::milliseconds limit) noexcept {
  const Deadline deadline = Deadline::after(limit);
  while (!done() && !deadline.passed()) ucp_worker_progress(worker_.get());
}

bool Membership::is_from_group(const Route& route) {
  const auto self = static_cast<std::uint32_t>(group_.rank.value);
  const bool known = route.secret == group_.secret && route.destination == self && route.source != self &&
                     route.source < group_.members.size();
  if (!known) group_.warn_dropped("its sender is not in this group");
  return known;
}

ucs_status_t Membership::on_data_message(void* argument, const void* header, std::size_t header_length,
                                         void* data, std::size_t length,
                                         const ucp_am_recv_param_t* param) noexcept {
  auto& self = *static_cast<Membership*>(argument);
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

ucs_status_t Membership::on_control_message(void* argument, const void* header, std::size_t header_length,
                                            void* data, std::size_t length,
                                            const ucp_am_recv_param_t* param) noexcept {
  auto& self = *static_cast<Membership*>(argument);
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
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

void Membership::on_control(Rank source, ControlKind kind, std::span<const std::byte> message) {
  UcxEndpoint& peer = *peers_[static_cast<std::size_t>(source.value)];
  if (!group_.aborted.ok() && kind != ControlKind::goodbye) return;
  switch (kind) {
    case ControlKind::hello:
      static_cast<void>(peer.open());
      return;
    case ControlKind::goodbye:
      peer.on_goodbye();
      return;
    case ControlKind::user:
      group_.activity |= group_.audience.on_control(source, message);
      return;
  }
  group_.warn_dropped(fmt::format("{} sent an unknown control message", group_.describe(source)));
}

}  // namespace ucxring::ucx
