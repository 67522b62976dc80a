#include "collectives/point_to_point.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collectives/control.hpp"

namespace ucxring {

void PointToPoint::start(Operation operation) {
  next_deadline_ = std::min(next_deadline_, operation->deadline());
  if (!operation->call().sends) return receive(std::move(operation));
  Peer& peer = peers_[operation->call().peer.value];
  operation->post_send(transport_, ++peer.sent);
  operation->advance(transport_, plans());  // this one alone: thousands may be on their way
  note(operation->trouble());
  if (!operation->done()) posted_.push_back(std::move(operation));
}

void PointToPoint::receive(Operation operation) {
  const PeerCall& call = operation->call();
  if (const auto found = unclaimed_.find(call.tag); found != unclaimed_.end()) {
    auto& messages = found->second;
    const auto message = std::find_if(messages.begin(), messages.end(), [&](const PeerArrival& arrival) {
      return call.any_source() || arrival.from == call.peer;
    });
    if (message != messages.end()) {
      const PeerArrival arrival = *message;
      messages.erase(message);
      if (messages.empty()) unclaimed_.erase(found);
      if (arrival.kept == nullptr) --peers_[arrival.from.value].unclaimed;
      return claim(std::move(operation), arrival);
    }
  }
  if (call.any_source() && !std::exchange(greeted_all_, true)) {
    for (int peer = 0; peer < transport_.world_size(); ++peer) greet(Rank(peer));
  } else if (!call.any_source()) {
    greet(call.peer);
  }
  ++waiting_;
  receives_[call.tag].push_back(std::move(operation));
}

/// Opens the connection, so that this rank hears when the peer leaves or dies.
void PointToPoint::greet(Rank peer) {
  if (peer == transport_.rank() || std::exchange(peers_[peer.value].greeted, true)) return;
  ControlMessage greeting;
  greeting.kind = ControlMessage::Kind::greeting;
  transport_.endpoint(peer).send_control(encode(greeting));
}

/// Messages of a peer are looked at in the order they were sent, whatever the order they come in.
void PointToPoint::arrived(Rank from, Tag tag, Stamp stamp) {
  const auto kind = PeerMessage::kind_of(tag);
  if (kind != PeerMessage::Kind::eager && kind != PeerMessage::Kind::offer) return;
  Peer& peer = peers_[from.value];
  PeerArrival arrival{from,   PeerMessage::read(tag, stamp), kind == PeerMessage::Kind::offer, tag, stamp,
                      nullptr};
  arrival.message.number = arrival.message.full_number(peer.arrived + 1);
  peer.early.emplace(arrival.message.number, arrival);
  while (!peer.early.empty() && peer.early.begin()->first == peer.arrived + 1) {
    arrivals_.push_back(peer.early.begin()->second);
    peer.early.erase(peer.early.begin());
    ++peer.arrived;
  }
}

/// Gives a new message to the oldest receive that waits for it; false when there is none.
bool PointToPoint::match(const PeerArrival& arrival) {
  const auto found = receives_.find(arrival.message.tag);
  if (found == receives_.end()) return false;
  auto& receives = found->second;
  const auto receive = std::find_if(receives.begin(), receives.end(), [&](const Operation& operation) {
    return operation->call().any_source() || operation->call().peer == arrival.from;
  });
  if (receive == receives.end()) return false;
  Operation operation = std::move(*receive);
  receives.erase(receive);
  if (receives.empty()) receives_.erase(found);
  --waiting_;
  claim(std::move(operation), arrival);
  return true;
}

/// Remembers a message until a receive claims it.
void PointToPoint::keep(PeerArrival arrival) {
  Peer& peer = peers_[arrival.from.value];
  if (arrival.offer || peer.unclaimed < kMostUnclaimed) {
    ++peer.unclaimed;
  } else {
    arrival.kept = std::make_shared<KeptMessage>();
    arrival.kept->data.resize(arrival.message.bytes);
    note(transport_.endpoint(arrival.from)
             .receive_into({arrival.kept->data.data(), arrival.message.bytes}, arrival.tag, arrival.stamp,
                           arrival.kept->done));
  }
  unclaimed_[arrival.message.tag].push_back(std::move(arrival));
}

void PointToPoint::claim(Operation operation, const PeerArrival& arrival) {
  if (!operation->accepts(arrival, transport_.rank())) {
    note(operation->trouble());
    posted_.push_back(std::move(operation));
  } else if (arrival.offer) {
    claimed_.emplace_back(std::move(operation), arrival);
    take_claimed();
  } else {
    operation->post_receive(transport_, plans(), arrival);
    posted_.push_back(std::move(operation));
  }
}

void PointToPoint::take_claimed() {
  for (; !claimed_.empty() && moving_receives_ < kMostMoving; ++moving_receives_) {
    auto [operation, arrival] = std::move(claimed_.front());
    claimed_.pop_front();
    operation->post_receive(transport_, plans(), arrival);
    posted_.push_back(std::move(operation));
  }
}

bool PointToPoint::advance_all() {
  bool moved = !arrivals_.empty();
  for (; !arrivals_.empty(); arrivals_.pop_front()) {
    const PeerArrival& arrival = arrivals_.front();
    if (!match(arrival)) keep(arrival);
  }
  for (const Operation& operation : posted_) {
    if (!operation->trouble().ok()) continue;
    moved |= operation->advance(transport_, plans());
    note(operation->trouble());
    if (operation->done() && operation->receives_large()) --moving_receives_;
  }
  std::erase_if(posted_, [](const Operation& operation) { return operation->done().load(); });
  if (!claimed_.empty() && moving_receives_ < kMostMoving) {
    take_claimed();
    return advance_all();
  }
  look_for_the_gone();
  return moved;
}

/// Receives from peers that have left will never get their message.
void PointToPoint::look_for_the_gone() {
  if (waiting_ == 0 || !some_are_gone_) return;
  for (const auto& [tag, receives] : receives_) {
    for (const Operation& receive : receives) {
      const Status& why = gone(receive->call());
      if (!why.ok())
        note({why.code(), fmt::format("{}: {}", receive->describe(), why.message()), why.peer()});
    }
  }
}

/// Why nobody will send what `call` waits for; ok while somebody may.
const Status& PointToPoint::gone(const PeerCall& call) {
  if (!call.any_source()) return peers_[call.peer.value].gone;
  const Status* why = &ok_;
  for (int peer = 0; peer < transport_.world_size(); ++peer) {
    if (Rank(peer) == transport_.rank()) continue;
    why = &peers_[peer].gone;
    if (why->ok()) break;
  }
  return *why;
}

void PointToPoint::note(const Status& status) {
  if (trouble_.ok()) trouble_ = status;
}

PeerPlans& PointToPoint::plans() {
  if (!plans_) plans_.emplace(transport_.rank(), transport_.hosts(), transport_.shared_memory(), config_);
  return *plans_;
}

template <typename Visit>
void PointToPoint::for_each(Visit visit) const {
  for (const auto& [tag, receives] : receives_) std::for_each(receives.begin(), receives.end(), visit);
  for (const auto& [operation, arrival] : claimed_) visit(operation);
  std::for_each(posted_.begin(), posted_.end(), visit);
}

void PointToPoint::fail(const Status& why) {
  for_each([&](const Operation& operation) { operation->fail(why); });
  receives_.clear();
  waiting_ = 0;
  claimed_.clear();
  posted_.clear();
  arrivals_.clear();
  unclaimed_.clear();
}

Status PointToPoint::late(Time now) {
  if (now < next_deadline()) return {};
  const PeerOperation* late = nullptr;
  next_deadline_ = Time::max();
  for_each([&](const Operation& operation) {
    next_deadline_ = std::min(next_deadline_, operation->deadline());
    if (operation->deadline() <= now && (late == nullptr || operation->deadline() < late->deadline())) {
      late = operation.get();
    }
  });
  if (late == nullptr) return {};
  const double limit = std::chrono::duration<double>(late->deadline() - late->started()).count();
  return {
      ErrorCode::timeout,
      fmt::format("{} timed out after {:.1f} s on rank {}: {}. If the peer is only slow, raise the timeout "
                  "of the group or of the call",
                  late->describe(), limit, transport_.rank().value, why_late(*late)),
      late->call().peer.value};
}

std::string PointToPoint::why_late(const PeerOperation& operation) const {
  const PeerCall& call = operation.call();
  if (operation.matched()) return "the message is still on its way";
  if (call.sends) return fmt::format("rank {} has not posted a receive for it", call.peer.value);
  const std::string from = call.any_source() ? "any rank" : fmt::format("rank {}", call.peer.value);
  return fmt::format("no message with tag {} has come from {}{}", call.tag, from, unclaimed_tags(call));
}

/// What else has come, since a wrong tag is the usual mistake.
std::string PointToPoint::unclaimed_tags(const PeerCall& call) const {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> others;
  for (const auto& [tag, messages] : unclaimed_) {
    for (const PeerArrival& arrival : messages) {
      if (others.size() == kMost) break;
      if (!call.any_source() && arrival.from != call.peer) continue;
      others.push_back(fmt::format("tag {} from rank {}", tag, arrival.from.value));
    }
  }
  if (others.empty()) return {};
  return fmt::format("; messages that wait for a receive: {}", fmt::join(others, ", "));
}

}  // namespace ucxring
