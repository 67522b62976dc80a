#include "transport/ucx/inbox.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "transport/ucx/status.hpp"

namespace ucxring::ucx {
namespace {

std::span<const std::byte> as_bytes(const void* data, std::size_t length) {
  return {static_cast<const std::byte*>(data), length};
}

}  // namespace

Inbox::Inbox(GroupState& group) : group_(group), partials_(group.members.size()) {}

Status Inbox::post(Rank peer, const PostedReceive& receive, const Status& peer_failure) {
  std::optional<Message> message = matcher_.post(peer, receive);
  if (message) {
    meet(peer, receive, std::move(*message));
    return {};
  }
  if (peer_failure.ok()) return {};
  if (const auto stored = matcher_.arrive(peer, receive.tag)) stored->done->state = Completion::State::idle;
  return peer_failure;
}

ucs_status_t Inbox::arrive(Rank source, const DataHeader& header, void* data, std::size_t length,
                           std::uint64_t attributes) {
  if (!is_sound(header, length)) {
    group_.warn_dropped(fmt::format("{} sent impossible lengths", group_.describe(source)));
    return UCS_OK;
  }
  if (length == header.total) return arrive_whole(source, header, data, length, attributes);
  if ((attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    group_.warn_dropped(fmt::format("{} offered a fragment by rendezvous", group_.describe(source)));
    return UCS_OK;
  }
  arrive_fragment(source, header, as_bytes(data, length));
  return UCS_OK;
}

ucs_status_t Inbox::arrive_whole(Rank source, const DataHeader& header, void* data, std::size_t length,
                                 std::uint64_t attributes) {
  const bool rendezvous = (attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const Tag tag = Tag::from_bits(header.tag);
  if (const auto receive = matcher_.arrive(source, tag)) {
    if (!receive->accept(source, header.stamp, length)) {
      group_.activity = true;
      return UCS_OK;
    }
    if (rendezvous) {
      start_transfer(source, *receive, data);
      return UCS_INPROGRESS;
    }
    receive->deliver(0, as_bytes(data, length));
    finish(*receive);
    return UCS_OK;
  }
  Message message{source, tag, header.stamp, length, {}};
  message.payload.rendezvous = rendezvous;
  const bool hold = rendezvous || (attributes & UCP_AM_RECV_ATTR_FLAG_DATA) != 0;
  if (hold) {
    message.payload.held = AmData(group_.worker, data);
  } else {
    message.payload.copy = buffers_.take(length);
    std::copy_n(static_cast<const std::byte*>(data), length, message.payload.copy.span().begin());
  }
  keep(std::move(message));
  return hold ? UCS_INPROGRESS : UCS_OK;
}

void Inbox::arrive_local(Tag tag, Stamp stamp, std::span<const std::byte> bytes) {
  if (const auto receive = matcher_.arrive(group_.rank, tag)) {
    group_.activity = true;
    if (!receive->accept(group_.rank, stamp, bytes.size())) return;
    receive->deliver(0, bytes);
    finish(*receive);
    return;
  }
  Message message{group_.rank, tag, stamp, bytes.size(), {}};
  message.payload.copy = buffers_.take(bytes.size());
  std::copy(bytes.begin(), bytes.end(), message.payload.copy.span().begin());
  keep(std::move(message));
}

void Inbox::arrive_fragment(Rank source, const DataHeader& header, std::span<const std::byte> bytes) {
  Partial& partial = partials_[static_cast<std::size_t>(source.value)];
  if (partial.fate == Partial::Fate::none && header.offset == 0) begin_partial(partial, source, header);
  const bool follows = partial.fate != Partial::Fate::none && header.offset == partial.received &&
                       header.tag == partial.header.tag && header.total == partial.header.total;
  if (!follows) {
    group_.warn_dropped(fmt::format("{} sent a fragment that continues no message", group_.describe(source)));
    return;
  }
  if (partial.fate == Partial::Fate::deliver) {
    partial.receive.deliver(header.offset, bytes);
  } else if (partial.fate == Partial::Fate::stage) {
    std::copy(bytes.begin(), bytes.end(),
              partial.staged.span().begin() + static_cast<std::ptrdiff_t>(header.offset));
  }
  partial.received += bytes.size();
  if (partial.received == partial.header.total) end_partial(partial, source);
}

void Inbox::begin_partial(Partial& partial, Rank source, const DataHeader& header) {
  const auto receive = matcher_.arrive(source, Tag::from_bits(header.tag));
  Partial::Fate fate = Partial::Fate::stage;
  if (!receive) {
    partial.staged = buffers_.take(header.total);
  } else if (receive->accept(source, header.stamp, header.total)) {
    partial.receive = *receive;
    fate = Partial::Fate::deliver;
  } else {
    group_.activity = true;
    fate = Partial::Fate::drop;
  }
  partial.fate = fate;
  partial.header = header;
  partial.received = 0;
  ++open_;
}

void Inbox::end_partial(Partial& partial, Rank source) {
  const auto fate = std::exchange(partial.fate, Partial::Fate::none);
  --open_;
  if (fate == Partial::Fate::deliver) finish(partial.receive);
  if (fate != Partial::Fate::stage) return;
  const Tag tag = Tag::from_bits(partial.header.tag);
  Message message{source, tag, partial.header.stamp, partial.header.total, {}};
  message.payload.copy = std::move(partial.staged);
  // The receive may have been posted since the first fragment came.
  if (const auto receive = matcher_.arrive(source, tag)) {
    meet(source, *receive, std::move(message));
  } else {
    keep(std::move(message));
  }
}

void Inbox::finish(const PostedReceive& receive) noexcept {
  receive.finish();
  group_.activity = true;
}

void Inbox::meet(Rank peer, const PostedReceive& receive, Message message) {
  group_.activity = true;
  if (!receive.accept(peer, message.stamp, message.bytes)) return;
  if (message.payload.rendezvous) {
    start_transfer(peer, receive, message.payload.held.release());
    return;
  }
  const bool held = static_cast<bool>(message.payload.held);
  receive.deliver(0,
                  held ? as_bytes(message.payload.held.get(), message.bytes) : message.payload.copy.span());
  finish(receive);
}

void Inbox::keep(Message message) {
  const Rank peer = message.peer;
  const Tag tag = message.tag;
  const Stamp stamp = message.stamp;
  matcher_.keep(std::move(message));
  if (group_.aborted.ok()) group_.activity |= group_.audience.on_unexpected(peer, tag, stamp);
}

void Inbox::start_transfer(Rank peer, const PostedReceive& receive, void* offer) {
  Transfer& transfer = transfers_.take();
  transfer.inbox = this;
  transfer.peer = peer;
  transfer.receive = receive;
  std::byte* target = receive.target.data;
  if (receive.apply) {
    transfer.staged = buffers_.take(receive.bytes);
    target = transfer.staged.span().data();
  }
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.recv_am = &Inbox::on_transferred;
  param.user_data = &transfer;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  const ucs_status_ptr_t request = ucp_am_recv_data_nbx(group_.worker, offer, target, receive.bytes, &param);
  if (UCS_PTR_IS_PTR(request)) {
    transfer.request = request;
  } else {
    end_transfer(transfer, UCS_PTR_STATUS(request));
  }
}

void Inbox::on_transferred(void* request, ucs_status_t status, std::size_t, void* user_data) noexcept {
  ucp_request_free(request);
  auto& transfer = *static_cast<Transfer*>(user_data);
  transfer.inbox->end_transfer(transfer, status);
}

void Inbox::end_transfer(Transfer& transfer, ucs_status_t status) noexcept {
  const PostedReceive& receive = transfer.receive;
  if (!group_.aborted.ok()) {
    receive.done->fail(group_.aborted);
  } else if (status != UCS_OK) {
    receive.done->fail(translate(status, fmt::format("receiving from {}", group_.describe(transfer.peer)),
                                 transfer.peer.value));
  } else {
    if (receive.apply) receive.deliver(0, transfer.staged.span());
    receive.finish();
  }
  group_.activity = true;
  transfer.staged.reset();
  transfer.request = nullptr;
  transfers_.give_back(transfer);
}

void Inbox::fail_peer(Rank peer, const Status& why) {
  Partial& partial = partials_[static_cast<std::size_t>(peer.value)];
  const auto fate = std::exchange(partial.fate, Partial::Fate::none);
  if (fate != Partial::Fate::none) --open_;
  if (fate == Partial::Fate::deliver) {
    partial.receive.done->fail(why);
    group_.activity = true;
  }
  partial.staged.reset();
  std::vector<Message> kept;
  group_.activity |= matcher_.fail_peer(peer, why, [&](Message&& message) {
    if (!message.payload.rendezvous) kept.push_back(std::move(message));
  });
  for (Message& message : kept) matcher_.keep(std::move(message));
  transfers_.for_each_used([&](Transfer& transfer) {
    if (transfer.peer == peer && transfer.request != nullptr)
      ucp_request_cancel(group_.worker, transfer.request);
  });
}

void Inbox::fail_all(const Status& why) {
  for (Partial& partial : partials_) {
    if (partial.fate == Partial::Fate::deliver) partial.receive.done->fail(why);
    partial.fate = Partial::Fate::none;
    partial.staged.reset();
  }
  open_ = 0;
  matcher_.fail_all(why);
  group_.activity = true;
  transfers_.for_each_used([&](Transfer& transfer) {
    if (transfer.request != nullptr) ucp_request_cancel(group_.worker, transfer.request);
  });
}

void Inbox::fail_cancelled(const Status& why) noexcept {
  transfers_.for_each_used([&](Transfer& transfer) {
    transfer.receive.done->fail(why);
    group_.activity = true;
    transfer.staged.reset();
    transfers_.give_back(transfer);
  });
}

}  // namespace ucxring::ucx
