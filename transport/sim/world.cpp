#include "transport/sim/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "transport/sim/transport.hpp"

namespace ucxring::sim {
namespace {

void require(bool condition, const char* what) {
  if (!condition) throw Error(ErrorCode::invalid_argument, fmt::format("simulated network: {}", what));
}

const Options& checked(const Options& options) {
  const Duration zero(0);
  require(options.world_size >= 1, "world_size below 1");
  require(options.ranks_per_host >= 1, "ranks_per_host below 1");
  require(options.bandwidth > 0 && options.host_bandwidth > 0, "a bandwidth that is not positive");
  require(options.latency >= zero && options.host_latency >= zero, "a negative latency");
  require(options.overhead >= zero && options.jitter >= zero, "a negative overhead or jitter");
  return options;
}

}  // namespace

SimWorld::SimWorld(const Options& options)
    : options_(checked(options)),
      network_(options_),
      members_(static_cast<std::size_t>(options_.world_size)) {}

std::vector<int> SimWorld::hosts() const {
  std::vector<int> hosts;
  for (int rank = 0; rank < options_.world_size; ++rank) hosts.push_back(rank / options_.ranks_per_host);
  return hosts;
}

void SimWorld::check(Rank rank) const {
  if (rank.value >= 0 && rank.value < options_.world_size) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("rank {} is not in this simulated group of {}", rank.value, options_.world_size),
              rank.value);
}

void SimWorld::join(Rank rank, SimTransport& transport) {
  check(rank);
  Member& member = members_[index(rank)];
  if (member.joined) {
    throw Error(ErrorCode::invalid_argument, fmt::format("rank {} has joined before", rank.value),
                rank.value);
  }
  member.joined = true;
  member.transport = &transport;
}

void SimWorld::leave(Rank rank) noexcept { members_[index(rank)].transport = nullptr; }

const Counters& SimWorld::counters(Rank rank) const {
  check(rank);
  return members_[index(rank)].counters;
}

void SimWorld::schedule(Time at, Event event) {
  std::uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(events_.size());
    events_.push_back(std::move(event));
  } else {
    slot = free_.back();
    free_.pop_back();
    events_[slot] = std::move(event);
  }
  queue_.push({std::max(at, now_), next_order_++, slot});
}

void SimWorld::count(Rank rank, std::size_t bytes) {
  Counters& counters = members_[index(rank)].counters;
  ++counters.messages;
  counters.bytes += bytes;
}

void SimWorld::send(Event event, std::size_t wire_bytes) {
  const Member& sender = members_[index(event.from)];
  if (sender.dead || sender.stopped) return;
  const Time arrival = network_.reserve(event.from, event.to, wire_bytes, now_);
  schedule(arrival, std::move(event));
}

void SimWorld::send_small(Event event) {
  const Member& sender = members_[index(event.from)];
  if (sender.dead || sender.stopped) return;
  const Time arrival = network_.reserve_control(event.from, event.to, now_);
  schedule(arrival, std::move(event));
}

void SimWorld::farewell(Rank rank, const Status& why) {
  members_[index(rank)].left = why;
  const SimTransport* const leaving = members_[index(rank)].transport;
  for (int i = 0; i < options_.world_size; ++i) {
    const Rank peer(i);
    const SimTransport* const other = members_[index(peer)].transport;
    if (peer == rank || other == nullptr) continue;
    if (leaving->connected(peer) || other->connected(rank)) notify_if_left(rank, peer);
  }
}

void SimWorld::notify_if_left(Rank from, Rank to) {
  const Status& why = members_[index(from)].left;
  if (why.ok()) return;
  Event notice;
  notice.kind = Event::Kind::left;
  notice.from = from;
  notice.to = to;
  notice.status = why;
  send_small(std::move(notice));
}

bool SimWorld::progress() {
  if (queue_.empty()) return false;
  now_ = queue_.top().at;
  while (!queue_.empty() && queue_.top().at == now_) {
    const std::uint32_t slot = queue_.top().slot;
    queue_.pop();
    Event event = std::move(events_[slot]);
    free_.push_back(slot);
    happen(event);
  }
  return true;
}

bool SimWorld::skip_to(Time time) {
  if (time <= now_) return false;
  if (!queue_.empty() && queue_.top().at <= time) return false;
  now_ = time;
  return true;
}

void SimWorld::happen(Event& event) {
  Member& member = members_[index(event.to)];
  if (event.kind == Event::Kind::kill) return die(event.to);
  if (event.kind == Event::Kind::stop) {
    member.stopped = true;
    return;
  }
  // Bytes are read from the sender's buffer only now: a sender that stopped on the way sends no more of them.
  const bool held = event.kind == Event::Kind::data && members_[index(event.from)].stopped;
  if (member.transport == nullptr || member.dead || member.stopped || held) return;
  if (event.kind == Event::Kind::answer) return ship(event);
  member.transport->handle(event);
}

void SimWorld::ship(Event& answer) {
  std::swap(answer.from, answer.to);
  answer.kind = Event::Kind::data;
  const std::size_t bytes = answer.bytes;
  send(std::move(answer), bytes);
}

void SimWorld::die(Rank rank) {
  Member& member = members_[index(rank)];
  if (std::exchange(member.dead, true)) return;
  const Status why(ErrorCode::peer_lost, fmt::format("rank {} was killed", rank.value), rank.value);
  if (member.transport != nullptr) member.transport->die(why);
  for (int peer = 0; peer < options_.world_size; ++peer) {
    if (peer == rank.value) continue;
    Event notice;
    notice.kind = Event::Kind::lost;
    notice.from = rank;
    notice.to = Rank(peer);
    notice.status = why;
    schedule(now_ + network_.latency(rank, Rank(peer)), std::move(notice));
  }
}

void SimWorld::kill(Rank rank, Time at) {
  check(rank);
  Event event;
  event.kind = Event::Kind::kill;
  event.to = rank;
  schedule(at, std::move(event));
}

void SimWorld::stop(Rank rank, Time at) {
  check(rank);
  Event event;
  event.kind = Event::Kind::stop;
  event.to = rank;
  schedule(at, std::move(event));
}

void SimWorld::slow(Rank rank, double factor) {
  check(rank);
  require(factor > 0, "a slowness that is not positive");
  network_.slow(rank, factor);
}

std::shared_ptr<World> make_world(const Options& options) { return std::make_shared<SimWorld>(options); }

}  // namespace ucxring::sim
