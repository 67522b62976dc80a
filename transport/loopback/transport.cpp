#include "transport/loopback/transport.hpp"

#include <utility>

namespace ucxring::loopback {
namespace {

Tag send_key(std::uint64_t number) noexcept { return Tag::from_bits(number); }

}  // namespace

bool LoopbackContext::progress() {
  if (!hub_->port(rank_).take(batch_)) return false;
  for (Message& message : batch_) {
    if (owner_ != nullptr) owner_->handle(std::move(message));
  }
  batch_.clear();
  return true;
}

LoopbackTransport::LoopbackTransport(std::shared_ptr<SharedHub> hub, Rank rank)
    : hub_(std::move(hub)),
      rank_(rank),
      own_context_(std::make_shared<LoopbackContext>(hub_, rank)),
      context_(own_context_),
      endpoints_(hub_->world_size()) {
  own_context_->set_owner(this);
}

LoopbackTransport::~LoopbackTransport() {
  abort(Status(ErrorCode::transport, "its transport was destroyed"));
  own_context_->set_owner(nullptr);
}

Status LoopbackTransport::post_send(Rank peer, ConstBuffer data, Tag tag, Stamp stamp, Completion& done) {
  if (!failure_.ok()) return failure_;
  if (!gone_.why(peer).ok()) return gone_.why(peer);
  Message message;
  message.from = rank_;
  message.tag = tag;
  message.stamp = stamp;
  message.bytes = data.bytes;
  done.start();
  if (data.bytes <= kEagerBytes) {
    message.copy.assign(data.data, data.data + data.bytes);
    done.succeed();
    activity_ = true;
  } else {
    message.kind = Message::Kind::rendezvous;
    message.data = data.data;
    message.send = next_send_++;
    sends_.insert(peer, send_key(message.send), &done);
  }
  hub_->port(peer).push(std::move(message));
  return {};
}

Status LoopbackTransport::post_receive(Rank peer, const PostedReceive& receive) {
  if (!failure_.ok()) return failure_;
  if (!gone_.why(peer).ok() && !matcher_.holds(peer, receive.tag)) return gone_.why(peer);
  if (auto message = matcher_.post(peer, receive)) consume(receive, message->payload);
  return {};
}

void LoopbackTransport::post_control(Rank peer, std::span<const std::byte> control) {
  if (!failure_.ok() || !gone_.why(peer).ok()) return;
  Message message;
  message.kind = Message::Kind::control;
  message.from = rank_;
  message.copy.assign(control.begin(), control.end());
  hub_->port(peer).push(std::move(message));
}

void LoopbackTransport::handle(Message message) {
  if (!failure_.ok()) return;
  switch (message.kind) {
    case Message::Kind::eager:
    case Message::Kind::rendezvous:
      return arrived(std::move(message));
    case Message::Kind::consumed:
      if (const auto done = sends_.take(message.from, send_key(message.send))) {
        (*done)->succeed();
        activity_ = true;
      }
      return;
    case Message::Kind::control:
      activity_ |= audience_.on_control(message.from, message.copy);
      return;
    case Message::Kind::left:
      return lose(message.from, message.status, false);
    case Message::Kind::lost:
      return lose(message.from, message.status, true);
  }
}

void LoopbackTransport::arrived(Message message) {
  const Rank peer = message.from;
  const Tag tag = message.tag;
  const Stamp stamp = message.stamp;
  if (!gone_.why(peer).ok()) return;
  if (const auto receive = matcher_.arrive(peer, tag)) return consume(*receive, message);
  const std::size_t bytes = message.bytes;
  matcher_.keep({peer, tag, stamp, bytes, std::move(message)});
  activity_ |= audience_.on_unexpected(peer, tag, stamp);
}

void LoopbackTransport::consume(const PostedReceive& receive, Message& message) {
  activity_ = true;
  if (!receive.accept(message.from, message.stamp, message.bytes)) return acknowledge(message);
  if (message.kind == Message::Kind::eager) {
    receive.deliver(0, message.copy);
    return receive.finish();
  }
  const bool read = hub_->while_present(message.from, rank_, [&] {
    receive.deliver(0, {message.data, message.bytes});
  });
  if (!read)
    return receive.done->fail(
        Status(ErrorCode::peer_lost, "the peer left during the transfer", message.from.value));
  receive.finish();
  acknowledge(message);
}

void LoopbackTransport::acknowledge(const Message& message) {
  if (message.kind != Message::Kind::rendezvous) return;
  Message answer;
  answer.kind = Message::Kind::consumed;
  answer.from = rank_;
  answer.send = message.send;
  hub_->port(message.from).push(std::move(answer));
}

void LoopbackTransport::lose(Rank peer, const Status& why, bool killed) {
  if (peer == rank_) {  // this rank was killed: as dead as a process, it tells nobody
    failure_ = why;
    fail_all(why);
    return;
  }
  if (!gone_.mark(peer, why)) return;
  bool failed = false;
  const auto of_peer = [peer](Rank other) { return other == peer; };
  sends_.extract_if(of_peer, [&](Rank, Tag, Completion* done) {
    done->fail(why);
    failed = true;
  });
  if (killed) {
    failed |= matcher_.fail_peer(peer, why);
  } else {
    failed |= matcher_.fail_posted(peer, why);
  }
  activity_ |= failed;
  if (failed || killed) activity_ |= audience_.on_peer_lost(peer, why);
  if (!killed) activity_ |= audience_.on_peer_left(peer, why);
}

void LoopbackTransport::fail_all(const Status& why) {
  bool failed = matcher_.fail_all(why);
  sends_.extract_if([](Rank) { return true; },
                    [&](Rank, Tag, Completion* done) {
                      done->fail(why);
                      failed = true;
                    });
  activity_ |= failed;
}

void LoopbackTransport::abort(const Status& why) noexcept {
  if (!failure_.ok()) return;
  failure_ = why;
  hub_->close(rank_, why);  // first: a peer may be reading a buffer whose completion is about to fail
  fail_all(why);
}

std::unique_ptr<Transport> create(std::shared_ptr<Hub> hub, Rank rank) {
  auto shared = std::static_pointer_cast<SharedHub>(std::move(hub));
  shared->join(rank);
  return std::make_unique<LoopbackTransport>(std::move(shared), rank);
}

}  // namespace ucxring::loopback
