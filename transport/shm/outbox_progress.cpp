// What an outbox does beside sending: waiting for room, control messages, farewells.
#include <algorithm>
#include <array>
#include <cstring>

#include "transport/shm/outbox.hpp"

namespace ucxring::shm {
namespace {

/// Longer than a reader that is only descheduled keeps a sender waiting, as a rule.
constexpr auto kLongStarved = std::chrono::milliseconds(5);

constexpr std::size_t padded(std::size_t bytes) noexcept { return (bytes + 7) / 8 * 8; }

void copy_into_ring(ControlRing& ring, std::uint64_t position, const void* data, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  const std::size_t place = position % kControlBytes;
  const std::size_t first = std::min(bytes, kControlBytes - place);
  std::memcpy(ring.bytes + place, data, first);
  std::memcpy(ring.bytes, static_cast<const std::byte*>(data) + first, bytes - first);
}

}  // namespace

/// Remembers that something waits for room, and asks to be woken when there is.
void Outbox::starve() {
  if (starved_) return;
  starved_ = true;
  starved_at_ = ack_changes_;
  starved_since_ = std::chrono::steady_clock::now();
  view_.header().wants_acks.store(1, std::memory_order_relaxed);
}

bool Outbox::progress() {
  if (quiet()) return false;
  read_acks();
  bool moved = starved_ && ack_changes_ != starved_at_;
  for (Reader& reader : readers_) moved |= send_pending_control(reader);
  if (starved_ && moved) {
    starved_ = false;
    view_.header().needs_room.store(0, std::memory_order_relaxed);
    for (Reader& reader : readers_) {
      send_pending(reader);
      if (!reader.pending.empty() || !reader.pending_control.empty()) starve();
    }
  } else if (starved_ && view_.header().needs_room.load(std::memory_order_relaxed) == 0 &&
             std::chrono::steady_clock::now() - starved_since_ > kLongStarved) {
    view_.header().needs_room.store(1, std::memory_order_relaxed);
    announce_news();
  }
  moved |= finish_references();
  if (quiet()) view_.header().wants_acks.store(0, std::memory_order_relaxed);
  return moved;
}

bool Outbox::finish_references() {
  bool finished = false;
  for (std::size_t begin = 0; begin < references_.size();) {
    std::size_t end = begin;
    bool consumed = true;
    for (; end < references_.size() && references_[end].done == references_[begin].done; ++end) {
      consumed &= acks_[references_[end].slot] > references_[end].position;
    }
    if (!consumed) {
      begin = end;
      continue;
    }
    references_[begin].done->succeed();
    for (std::size_t i = begin; i < end; ++i) --readers_[references_[i].slot].references;
    references_.erase(references_.begin() + static_cast<std::ptrdiff_t>(begin),
                      references_.begin() + static_cast<std::ptrdiff_t>(end));
    finished = true;
  }
  return finished;
}

void Outbox::send_control(Rank peer, std::span<const std::byte> message) {
  Reader& reader = readers_[slot(peer)];
  if (reader.gone) return;
  if (reader.pending_control.empty() && write_control(reader, message)) return;
  reader.pending_control.emplace_back(message.begin(), message.end());
  starve();
}

bool Outbox::send_pending_control(Reader& reader) {
  bool sent = false;
  while (!reader.pending_control.empty() && write_control(reader, reader.pending_control.front())) {
    reader.pending_control.pop_front();
    sent = true;
  }
  return sent;
}

bool Outbox::write_control(Reader& reader, std::span<const std::byte> message) {
  ControlRing& ring = *reader.control;
  const auto length = static_cast<std::uint32_t>(message.size());
  const std::size_t bytes = padded(sizeof length + message.size());
  const std::uint64_t written = ring.written.load(std::memory_order_relaxed);
  const std::uint64_t read = reader.theirs.ack(self_).control.load(std::memory_order_acquire);
  if (!reader.gone && kControlBytes - (written - read) < bytes) return false;
  copy_into_ring(ring, written, &length, sizeof length);
  copy_into_ring(ring, written + sizeof length, message.data(), message.size());
  ring.written.store(written + bytes, std::memory_order_release);
  announce_news();
  return true;
}

void Outbox::announce_news() {
  view_.header().news.fetch_add(1, std::memory_order_seq_cst);
  for (const Reader& reader : readers_) {
    if (reader.neighbour && !reader.gone) reader.neighbour->ring();
  }
}

void Outbox::fail_pending(Reader& reader, const Status& why) {
  for (const Pending& pending : reader.pending) pending.done->fail(why);
  reader.pending.clear();
}

void Outbox::forget(Rank peer, const Status& why) {
  Reader& reader = readers_[slot(peer)];
  if (reader.gone) return;
  reader.gone = true;
  fail_pending(reader, why);
  reader.pending_control.clear();  // what it never took is of no use to it: `read_acks` counts it as taken
}

void Outbox::leave(const Status& why) {
  for (Reader& reader : readers_) fail_pending(reader, why);
  for (const Reference& reference : references_) {
    if (reference.done->state == Completion::State::pending) reference.done->fail(why);
  }
  references_.clear();
  for (Reader& reader : readers_) reader.references = 0;
  Header& header = view_.header();
  const std::string_view reason = why.message();
  header.reason_code = static_cast<std::uint32_t>(why.code());
  header.reason_bytes = static_cast<std::uint32_t>(std::min(reason.size(), kReasonBytes));
  std::memcpy(header.reason, reason.data(), header.reason_bytes);
  // Registered memory changes hands with it: nobody who sees what its owner writes there next sees it open.
  header.state.store(State::left, std::memory_order_seq_cst);
  announce_news();
}

bool Outbox::flushed() const noexcept {
  return std::all_of(readers_.begin(), readers_.end(), [](const Reader& reader) {
    return reader.gone || (reader.pending.empty() && reader.pending_control.empty());
  });
}

}  // namespace ucxring::shm
