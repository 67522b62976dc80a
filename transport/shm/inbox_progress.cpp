// What an inbox does when nobody asks: new messages, control messages, peers that leave, senders in need.
#include <algorithm>
#include <cstring>

#include "transport/shm/inbox.hpp"

namespace ucxring::shm {
namespace {

void copy_from_ring(const ControlRing& ring, std::uint64_t position, void* data, std::size_t bytes) noexcept {
  const std::size_t place = position % kControlBytes;
  const std::size_t first = std::min(bytes, kControlBytes - place);
  std::memcpy(data, ring.bytes + place, first);
  std::memcpy(static_cast<std::byte*>(data) + first, ring.bytes, bytes - first);
}

}  // namespace

bool Inbox::progress() {
  bool found = false;
  for (Source& source : sources_) {
    found |= look(source);
    if (source.header->news.load(std::memory_order_acquire) != source.news) {
      read_news(source);
      found = true;
    }
    if (source.starves) relieve(source);
  }
  passed_over_ = false;
  return std::exchange(moved_, false) || found;
}

bool Inbox::has_unannounced() const noexcept {
  return std::any_of(sources_.begin(), sources_.end(), [](const Source& source) {
    return std::max(source.announced, source.head) < source.seen;
  });
}

bool Inbox::has_news() const noexcept {
  return std::any_of(sources_.begin(), sources_.end(), [](const Source& source) {
    // Who looked for another message may have seen some that have not been announced.
    const std::uint64_t known = std::max(source.announced, source.head);
    return known < source.seen || filled(source, known) ||
           source.header->news.load(std::memory_order_acquire) != source.news;
  });
}

/// Looks at the positions that were filled since the last time; true when there were any.
bool Inbox::look(Source& source) {
  source.announced = std::max(source.announced, source.head);
  const std::uint64_t from = source.announced;
  while (source.announced < source.seen || filled(source, source.announced)) {
    const std::uint64_t position = source.announced++;
    source.seen = std::max(source.seen, source.announced);
    if (position >= source.head && source.states[position % kCells] != CellState::consumed) {
      arrived(source, position);
    }
    source.announced = std::max(source.announced, source.head);
  }
  return source.announced != from;
}

void Inbox::arrived(Source& source, std::uint64_t position) {
  const Cell& cell = Inbox::cell(source, position);
  if (source.assembly && source.assembly->next == position) return take_fragment(source, position);
  const bool continues = cell.place() == Place::arena && cell.where.message_offset != 0;
  if (continues) return;
  const Tag tag = Tag::from_bits(cell.tag);
  if (const auto receive = matcher_.arrive(source.rank, tag)) return take(source, position, *receive);
  audience_.on_unexpected(source.rank, tag, cell.stamp);
}

void Inbox::read_news(Source& source) {
  source.news = source.header->news.load(std::memory_order_acquire);
  read_control(source);
  source.starves = source.header->needs_room.load(std::memory_order_acquire) != 0;
  if (source.header->state.load(std::memory_order_acquire) != State::left || !source.gone.ok()) return;
  while (look(source)) {
  }  // what it sent before it left still counts
  const Status why(
      static_cast<ErrorCode>(source.header->reason_code),
      std::string(source.header->reason, std::min<std::size_t>(source.header->reason_bytes, kReasonBytes)),
      source.rank.value);
  lose(source.rank, why, false);
  if (on_left) on_left(source.rank, why);
}

void Inbox::read_control(Source& source) {
  const std::uint64_t written = source.control->written.load(std::memory_order_acquire);
  std::array<std::byte, Endpoint::kMaxControlBytes> message;
  while (source.control_read < written) {
    std::uint32_t length = 0;
    copy_from_ring(*source.control, source.control_read, &length, sizeof length);
    length = std::min(length, static_cast<std::uint32_t>(message.size()));
    copy_from_ring(*source.control, source.control_read + sizeof length, message.data(), length);
    source.control_read += (sizeof length + length + 7) / 8 * 8;
    source.ack->control.store(source.control_read, std::memory_order_release);
    audience_.on_control(source.rank, {message.data(), length});
  }
  tell_of_ack(source);
}

/// Makes room for a sender; while this process computes, only so much, or its memory would grow by all that
/// peers send ahead.
void Inbox::relieve(Source& source) {
  if (source.header->needs_room.load(std::memory_order_acquire) != 0) {
    if (source.aside >= kMostAside && !audience_.waits()) return;
    spill(source);
  }
  source.starves = false;
}

/// Copies messages that nobody has asked for, so that the sender gets its room back.
void Inbox::spill(Source& source) {
  // A receive under way is for the newest message; those before it are complete.
  std::optional<Assembly> under_way = std::exchange(source.assembly, std::nullopt);
  for (std::uint64_t position = source.head; position < source.seen; ++position) {
    if (position < source.head || source.states[position % kCells] == CellState::consumed) continue;
    const Cell& cell = Inbox::cell(source, position);
    if (cell.place() == Place::pool) continue;  // takes no room
    const auto bytes = bytes_of(source, cell);
    const bool whole = bytes.size() == cell.bytes();
    if (whole || cell.where.message_offset == 0) {
      source.assembly = Assembly{Tag::from_bits(cell.tag),
                                 cell.stamp,
                                 cell.bytes(),
                                 position,
                                 {},
                                 std::vector<std::byte>(cell.bytes())};
    }
    if (whole) {
      if (!bytes.empty()) std::memcpy(source.assembly->copy->data(), bytes.data(), bytes.size());
      consume(source, position);
      finish(source);
    } else if (source.assembly && source.assembly->next == position) {
      take_fragment(source, position);
    }
  }
  if (under_way) source.assembly = std::move(under_way);
}

bool Inbox::lose(Rank peer, const Status& why, bool killed) {
  Source& source = this->source(peer);
  if (!source.gone.ok()) return false;
  source.gone = why;
  bool failed = matcher_.fail_posted(peer, why);  // what it sent before may still be received
  if (source.assembly && source.assembly->receive) {
    source.assembly->receive->done->fail(why);
    failed = true;
  }
  source.assembly.reset();
  moved_ = true;
  if (failed || killed) audience_.on_peer_lost(peer, why);
  if (!killed) audience_.on_peer_left(peer, why);
  return true;
}

void Inbox::fail_all(const Status& why) {
  matcher_.fail_all(why);
  for (Source& source : sources_) {
    if (source.assembly && source.assembly->receive) source.assembly->receive->done->fail(why);
    source.assembly.reset();
  }
}

}  // namespace ucxring::shm
