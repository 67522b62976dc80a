#include "transport/sim/transport.hpp"

#include <fmt/format.h>

#include <utility>

namespace ucxring::sim {
namespace {

Tag send_key(std::uint64_t number) noexcept { return Tag::from_bits(number); }

}  // namespace

SimTransport::SimTransport(std::shared_ptr<SimWorld> world, Rank rank)
    : world_(std::move(world)), rank_(rank), context_(world_), endpoints_(world_->world_size()) {
  world_->join(rank_, *this);
}

SimTransport::~SimTransport() {
  abort(Status(ErrorCode::transport, "its transport was destroyed"));
  world_->leave(rank_);
}

Endpoint& SimTransport::endpoint(Rank peer) {
  const bool first = peer.value >= 0 && peer.value < world_size() && !endpoints_.made(peer);
  Endpoint& endpoint = endpoints_.get(*this, peer);
  if (first) world_->notify_if_left(peer, rank_);  // a peer that left told only those that had to do with it
  return endpoint;
}

Status SimTransport::post_send(Rank peer, ConstBuffer data, Tag tag, Stamp stamp, Completion& done) {
  if (!failure_.ok()) return failure_;
  if (!gone_.why(peer).ok()) return gone_.why(peer);
  Event event;
  event.from = rank_;
  event.to = peer;
  event.tag = tag;
  event.stamp = stamp;
  event.bytes = data.bytes;
  done.start();
  world_->count(rank_, data.bytes);
  if (data.bytes <= world_->eager_bytes()) {
    event.copy.assign(data.data, data.data + data.bytes);
    world_->send(std::move(event), data.bytes);
    done.succeed();
    activity_ = true;
  } else {
    event.kind = Event::Kind::request;
    event.send = next_send_++;
    sends_.insert(peer, send_key(event.send), {data, &done});
    world_->send(std::move(event), 0);
  }
  return {};
}

Status SimTransport::post_receive(Rank peer, const PostedReceive& receive) {
  if (!failure_.ok()) return failure_;
  if (!gone_.why(peer).ok() && !matcher_.holds(peer, receive.tag)) return gone_.why(peer);
  if (auto message = matcher_.post(peer, receive)) consume(receive, message->payload);
  return {};
}

void SimTransport::post_control(Rank peer, std::span<const std::byte> control) {
  if (!failure_.ok() || !gone_.why(peer).ok()) return;
  Event event;
  event.kind = Event::Kind::control;
  event.from = rank_;
  event.to = peer;
  event.copy.assign(control.begin(), control.end());
  world_->send_small(std::move(event));
}

void SimTransport::handle(Event& event) {
  if (!failure_.ok()) return;
  switch (event.kind) {
    case Event::Kind::eager:
    case Event::Kind::request:
      return arrived(event);
    case Event::Kind::data:
      return finish_transfer(event);
    case Event::Kind::control:
      if (gone_.why(event.from).ok()) activity_ |= audience_.on_control(event.from, event.copy);
      return;
    case Event::Kind::left:
      return lose(event.from, event.status, false);
    case Event::Kind::lost:
      return lose(event.from, event.status, true);
    case Event::Kind::answer:
    case Event::Kind::kill:
    case Event::Kind::stop:
      return;  // the world's own
  }
}

void SimTransport::arrived(Event& event) {
  const Rank peer = event.from;
  const Tag tag = event.tag;
  const Stamp stamp = event.stamp;
  if (!gone_.why(peer).ok()) return;
  if (const auto receive = matcher_.arrive(peer, tag)) return consume(*receive, event);
  const std::size_t bytes = event.bytes;
  matcher_.keep({peer, tag, stamp, bytes, std::move(event)});
  activity_ |= audience_.on_unexpected(peer, tag, stamp);
}

void SimTransport::consume(const PostedReceive& receive, Event& event) {
  if (!receive.accept(event.from, event.stamp, event.bytes)) {
    activity_ = true;
    SimTransport* const sender = world_->transport(event.from);
    if (event.kind != Event::Kind::request || sender == nullptr) return;
    if (const auto send = sender->take_send(rank_, event.send)) send->done->succeed();
    return;
  }
  if (event.kind == Event::Kind::eager) {
    activity_ = true;
    receive.deliver(0, event.copy);
    return receive.finish();
  }
  transfers_.insert(event.from, send_key(event.send), receive);
  Event answer;
  answer.kind = Event::Kind::answer;
  answer.from = rank_;
  answer.to = event.from;
  answer.send = event.send;
  answer.bytes = event.bytes;
  world_->send_small(std::move(answer));
}

void SimTransport::finish_transfer(const Event& event) {
  const auto receive = transfers_.take(event.from, send_key(event.send));
  if (!receive) return;
  activity_ = true;
  SimTransport* const sender = world_->transport(event.from);
  const auto send = sender == nullptr ? std::nullopt : sender->take_send(rank_, event.send);
  if (!send) {
    const auto message = fmt::format("rank {} left the group during a transfer", event.from.value);
    return receive->done->fail(Status(ErrorCode::peer_lost, message, event.from.value));
  }
  receive->deliver(0, {send->data.data, send->data.bytes});
  receive->finish();
  send->done->succeed();
}

std::optional<SimTransport::Send> SimTransport::take_send(Rank peer, std::uint64_t number) {
  auto send = sends_.take(peer, send_key(number));
  activity_ |= send.has_value();
  return send;
}

void SimTransport::lose(Rank peer, const Status& why, bool killed) {
  if (!gone_.mark(peer, why)) return;
  bool failed = killed ? matcher_.fail_peer(peer, why) : matcher_.fail_posted(peer, why);
  const auto fail = [&](Completion* done) {
    done->fail(why);
    failed = true;
  };
  const auto of_peer = [peer](Rank other) { return other == peer; };
  sends_.extract_if(of_peer, [&](Rank, Tag, const Send& send) { fail(send.done); });
  transfers_.extract_if(of_peer, [&](Rank, Tag, const PostedReceive& receive) { fail(receive.done); });
  activity_ |= failed;
  if (failed || killed) activity_ |= audience_.on_peer_lost(peer, why);
  if (!killed) activity_ |= audience_.on_peer_left(peer, why);
}

void SimTransport::fail_all(const Status& why) {
  activity_ |= matcher_.fail_all(why);
  const auto fail = [&](Completion* done) {
    done->fail(why);
    activity_ = true;
  };
  const auto every = [](Rank) { return true; };
  sends_.extract_if(every, [&](Rank, Tag, const Send& send) { fail(send.done); });
  transfers_.extract_if(every, [&](Rank, Tag, const PostedReceive& receive) { fail(receive.done); });
}

void SimTransport::die(const Status& why) {
  if (!failure_.ok()) return;
  failure_ = why;
  fail_all(why);
}

void SimTransport::abort(const Status& why) noexcept {
  if (!failure_.ok()) return;
  die(why);
  const Status left(ErrorCode::peer_lost,
                    fmt::format("rank {} left the group: {}", rank_.value, why.message()), rank_.value);
  world_->farewell(rank_, left);
}

std::unique_ptr<Transport> create(const std::shared_ptr<World>& world, Rank rank) {
  return std::make_unique<SimTransport>(std::static_pointer_cast<SimWorld>(world), rank);
}

}  // namespace ucxring::sim
