#include "transport/shm/inbox.hpp"

#include <cstring>
#include <utility>

#include "transport/shm/pool.hpp"

namespace ucxring::shm {

Inbox::Inbox(Rank self, int world_size, const OutboxView<std::byte>& own)
    : self_(self), own_(own), slots_(static_cast<std::size_t>(world_size), -1) {}

void Inbox::connect(Rank peer, const OutboxView<const std::byte>& theirs,
                    std::shared_ptr<Neighbour> neighbour) {
  slots_[static_cast<std::size_t>(peer.value)] = static_cast<int>(sources_.size());
  Source& source = sources_.emplace_back();
  source.rank = peer;
  source.cells = theirs.queue(self_);
  source.header = &theirs.header();
  source.control = &theirs.control(self_);
  source.ack = &own_.ack(peer);
  source.outbox = theirs.base();
  source.neighbour = std::move(neighbour);
}

/// The bytes of one cell: a whole message or a fragment.
std::span<const std::byte> Inbox::bytes_of(const Source& source, const Cell& cell) noexcept {
  switch (cell.place()) {
    case Place::cell:
      return {cell.data, cell.bytes()};
    case Place::arena:
      return {source.outbox + cell.where.offset, cell.where.bytes};
    case Place::pool:
      break;
  }
  const std::byte* const pool = source.neighbour ? source.neighbour->pool() : Pool::process().data();
  return {pool + cell.where.offset, cell.where.bytes};
}

/// Looks for the first cell of the message `tag`, from the oldest one on; leaves its position in `found`.
bool Inbox::find(Source& source, Tag tag) noexcept {
  for (std::uint64_t position = source.head;; ++position) {
    if (position == source.seen) {
      if (!filled(source, position)) return false;
      ++source.seen;
    }
    if (source.states[position % kCells] == CellState::consumed) continue;
    if (cell(source, position).tag != tag.bits()) {
      passed_over_ = true;
      continue;
    }
    source.found = position;
    return true;
  }
}

SharedMemory::Message Inbox::peek(Rank peer, Tag tag) noexcept {
  Source& from = source(peer);
  if (matcher_.unexpected() != 0) {
    if (const auto* copy = matcher_.find(peer, tag)) {
      static constexpr std::byte kNothing{};  // an empty message has arrived, too
      return {copy->payload.empty() ? &kNothing : copy->payload.data(), copy->stamp, copy->bytes};
    }
  }
  if (!find(from, tag)) return {};
  const Cell& first = cell(from, from.found);
  return {bytes_of(from, first).data(), first.stamp, first.bytes()};
}

bool Inbox::release(Rank peer, Tag tag) noexcept {
  Source& from = source(peer);
  if (matcher_.unexpected() != 0) {
    if (const auto copy = matcher_.take(peer, tag)) {
      from.aside -= copy->bytes;
      return true;
    }
  }
  const bool known = from.found >= from.head && cell(from, from.found).tag == tag.bits();
  if (!known && !find(from, tag)) return true;
  const bool trusted = intact(from, cell(from, from.found));
  consume(from, from.found);
  return trusted;
}

/// Whether what was read from `cell` is what its sender sent: registered memory is his again once he has
/// left.
bool Inbox::intact(const Source& source, const Cell& cell) noexcept {
  if (cell.place() != Place::pool) return true;
  loads_before();
  return source.header->state.load(std::memory_order_acquire) == State::open;
}

void Inbox::consume(Source& source, std::uint64_t position) noexcept {
  source.states[position % kCells] = CellState::consumed;
  if (position != source.head) return;
  do {
    source.states[source.head % kCells] = CellState::fresh;
    ++source.head;
  } while (source.head < source.seen && source.states[source.head % kCells] == CellState::consumed);
  releases(&source.ack->cells);
  source.ack->cells.store(source.head, std::memory_order_release);
  tell_of_ack(source);
}

/// Wakes a sender that sleeps until there is room.
void Inbox::tell_of_ack(const Source& source) noexcept {
  if (!source.neighbour) return;
  // As in `Outbox::wake`.
  if (!sleepers_fence_) own_.header().wants_acks.fetch_or(0, std::memory_order_seq_cst);
  if (source.header->wants_acks.load(std::memory_order_relaxed) != 0 &&
      source.header->sleeping.load(std::memory_order_relaxed) != 0) {
    source.neighbour->ring();
  }
}

Status Inbox::post(Rank peer, const PostedReceive& receive) {
  Source& from = source(peer);
  if (!matcher_.holds(peer, receive.tag)) {
    if (find(from, receive.tag)) {
      receive.done->start();
      take(from, from.found, receive);
      return {};
    }
    if (!from.gone.ok()) return from.gone;
  }
  if (const auto message = matcher_.post(peer, receive)) {
    moved_ = true;
    from.aside -= message->bytes;
    if (!receive.accept(peer, message->stamp, message->bytes)) return {};
    receive.deliver(0, message->payload);
    receive.finish();
  }
  return {};
}

/// Gives the message whose first cell is at `position` to `receive`.
void Inbox::take(Source& source, std::uint64_t position, const PostedReceive& receive) {
  const Cell& first = cell(source, position);
  const bool accepted = receive.accept(source.rank, first.stamp, first.bytes());
  moved_ = true;
  if (first.place() != Place::arena || first.where.bytes == first.bytes()) {
    if (accepted) {
      receive.deliver(0, bytes_of(source, first));
      if (intact(source, first)) {
        receive.finish();
      } else {
        receive.done->fail(
            Status(ErrorCode::peer_lost, "it gave up while its memory was read", source.rank.value));
      }
    }
    return consume(source, position);
  }
  // Fragments follow each other, and only the newest message of a queue can be incomplete.
  source.assembly = Assembly{};
  source.assembly->bytes = first.bytes();
  source.assembly->next = position;
  if (accepted) source.assembly->receive = receive;
  while (source.assembly && (source.assembly->next < source.seen || filled(source, source.assembly->next))) {
    take_fragment(source, source.assembly->next);
  }
}

void Inbox::take_fragment(Source& source, std::uint64_t position) {
  Assembly& assembly = *source.assembly;
  source.seen = std::max(source.seen, position + 1);
  const Cell& fragment = cell(source, position);
  const auto bytes = bytes_of(source, fragment);
  const std::size_t offset = fragment.where.message_offset;
  if (assembly.receive) assembly.receive->deliver(offset, bytes);
  if (assembly.copy) std::memcpy(assembly.copy->data() + offset, bytes.data(), bytes.size());
  const bool last = offset + bytes.size() == assembly.bytes;
  assembly.next = position + 1;
  consume(source, position);
  if (last) finish(source);
}

void Inbox::finish(Source& source) {
  Assembly assembly = std::move(*source.assembly);
  source.assembly.reset();
  moved_ = true;
  if (assembly.receive) return assembly.receive->finish();
  if (!assembly.copy) return;
  if (const auto receive = matcher_.arrive(source.rank, assembly.tag)) {
    if (!receive->accept(source.rank, assembly.stamp, assembly.bytes)) return;
    receive->deliver(0, *assembly.copy);
    return receive->finish();
  }
  source.aside += assembly.bytes;
  matcher_.keep({source.rank, assembly.tag, assembly.stamp, assembly.bytes, std::move(*assembly.copy)});
}

}  // namespace ucxring::shm
