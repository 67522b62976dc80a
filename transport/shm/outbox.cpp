#include "transport/shm/outbox.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "transport/shm/happens_before.hpp"

namespace ucxring::shm {
namespace {

constexpr std::uint64_t kEverything = std::numeric_limits<std::uint64_t>::max();

Tag with_step(Tag tag, std::uint32_t step) noexcept {
  return Tag::from_bits((tag.bits() & ~((std::uint64_t{1} << Tag::kStepBits) - 1)) | step);
}

}  // namespace

Outbox::Outbox(Rank self, int world_size, std::size_t arena_bytes, std::optional<Region> region)
    : self_(self),
      region_(std::move(region)),
      view_(region_ ? region_->data() : aligned(private_, bytes_needed(world_size, arena_bytes)),
            Layout::of(world_size, arena_bytes)),
      slots_(static_cast<std::size_t>(world_size), -1),
      small_(view_.base() + view_.layout().small_arena, kSmallArena),
      large_(view_.base() + view_.layout().large_arena, arena_bytes) {
  auto* const header = ::new (view_.base()) Header{};  // the rest is zero, as the system gave it
  header->owners_address = view_.base();
}

std::byte* Outbox::aligned(std::vector<std::byte>& memory, std::size_t bytes) {
  memory.resize(bytes + kLine);
  void* begin = memory.data();
  std::size_t space = memory.size();
  return static_cast<std::byte*>(std::align(kLine, bytes, begin, space));
}

void Outbox::connect(Rank peer, const OutboxView<const std::byte>& theirs,
                     std::shared_ptr<Neighbour> neighbour, bool reads_pool) {
  slots_[index(peer)] = static_cast<int>(readers_.size());
  Reader& reader = readers_.emplace_back();
  reader.rank = peer;
  reader.cells = view_.queue(peer);
  reader.control = &view_.control(peer);
  reader.theirs = theirs;
  reader.neighbour = std::move(neighbour);
  all_read_pool_ = all_read_pool_ && reads_pool;
  tails_.push_back(0);
  acks_.push_back(0);
  small_.set_readers(readers_.size());
  large_.set_readers(readers_.size());
}

void Outbox::read_acks() noexcept {
  bool changed = false;
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    const Reader& reader = readers_[i];
    auto ack = kEverything;
    if (!reader.gone) {
      const Ack& theirs = reader.theirs.ack(self_);
      ack = theirs.cells.load(std::memory_order_acquire);
      acquired(&theirs.cells, reader.theirs.base(), reader.theirs.header().owners_address);
    }
    changed |= std::exchange(acks_[i], ack) != ack;
  }
  if (changed) ++ack_changes_;
}

bool Outbox::have_cells(std::span<const Recipient> recipients) noexcept {
  for (const Recipient& recipient : recipients) {
    const std::size_t i = slot(recipient.peer);
    if (tails_[i] < acks_[i] + kCells || acks_[i] == kEverything) continue;
    read_acks();
    if (tails_[i] >= acks_[i] + kCells && acks_[i] != kEverything) {
      starve();
      return false;
    }
  }
  return true;
}

Cell& Outbox::next_cell(std::size_t slot, Tag tag, Stamp stamp) noexcept {
  Cell& cell = readers_[slot].cells[tails_[slot] % kCells];
  cell.tag = tag.bits();
  cell.stamp = stamp;
  return cell;
}

void Outbox::hand_over(std::size_t slot, Cell& cell) noexcept {
  releases(&cell.turn);
  cell.turn.store(++tails_[slot], std::memory_order_release);
}

void Outbox::wake(std::span<const Recipient> recipients) noexcept {
  if (!sleepers_fence_) {
    // A read-modify-write orders the cells above before the loads below, as a fence would.
    view_.header().wants_acks.fetch_or(0, std::memory_order_seq_cst);
  }
  for (const Recipient& recipient : recipients) {
    Reader& reader = readers_[slot(recipient.peer)];
    if (reader.neighbour && reader.theirs.header().sleeping.load(std::memory_order_relaxed) != 0) {
      reader.neighbour->ring();
    }
  }
}

std::byte* Outbox::reserve(std::size_t bytes) noexcept {
  Arena& arena = arena_for(bytes);
  if (std::byte* const room = arena.reserve(bytes)) return room;
  arena.mark(tails_.data());
  read_acks();
  if (arena.release(acks_.data())) {
    if (std::byte* const room = arena.reserve(bytes)) return room;
  }
  starve();
  return nullptr;
}

bool Outbox::commit(const std::byte* room, std::size_t bytes, std::span<const Recipient> recipients, Tag tag,
                    Stamp stamp) noexcept {
  if (!have_cells(recipients)) return false;
  Arena& arena = arena_for(bytes);
  arena.take(bytes);
  const auto offset = static_cast<std::uint64_t>(room - view_.base());
  for (const Recipient& recipient : recipients) {
    const std::size_t i = slot(recipient.peer);
    Cell& cell = next_cell(i, with_step(tag, recipient.step), stamp);
    cell.set_size(bytes, Place::arena);
    cell.where = {offset, bytes, 0};
    hand_over(i, cell);
  }
  if (arena.wants_mark()) arena.mark(tails_.data());
  wake(recipients);
  return true;
}

bool Outbox::publish(ConstBuffer data, std::span<const Recipient> recipients, Tag tag, Stamp stamp) noexcept {
  if (data.bytes > Cell::kInlineBytes) {
    std::byte* const room = reserve(data.bytes);
    if (room == nullptr) return false;
    std::memcpy(room, data.data, data.bytes);
    return commit(room, data.bytes, recipients, tag, stamp);
  }
  if (!have_cells(recipients)) return false;
  for (const Recipient& recipient : recipients) {
    const std::size_t i = slot(recipient.peer);
    Cell& cell = next_cell(i, with_step(tag, recipient.step), stamp);
    cell.set_size(data.bytes, Place::cell);
    if (data.bytes != 0) std::memcpy(cell.data, data.data, data.bytes);
    hand_over(i, cell);
  }
  wake(recipients);
  return true;
}

bool Outbox::may_refer(std::span<const Recipient> recipients) const noexcept {
  return std::all_of(recipients.begin(), recipients.end(), [this](const Recipient& recipient) {
    return readers_[slot(recipient.peer)].references < kMostReferences;
  });
}

bool Outbox::refer(ConstBuffer data, std::span<const Recipient> recipients, Tag tag, Stamp stamp,
                   Completion& done) {
  if (!refers(data) || !may_refer(recipients) || !have_cells(recipients)) return false;
  done.start();
  for (const Recipient& recipient : recipients) {
    const std::size_t i = slot(recipient.peer);
    Cell& cell = next_cell(i, with_step(tag, recipient.step), stamp);
    cell.set_size(data.bytes, Place::pool);
    cell.where = {Pool::process().offset_of(data.data), data.bytes, 0};
    references_.push_back({&done, i, tails_[i]});
    ++readers_[i].references;
    hand_over(i, cell);
  }
  view_.header().wants_acks.store(1, std::memory_order_relaxed);
  wake(recipients);
  return true;
}

void Outbox::send(Rank peer, ConstBuffer data, Tag tag, Stamp stamp, Completion& done) {
  done.start();
  Reader& reader = readers_[slot(peer)];
  reader.pending.push_back({data, tag, stamp, &done, 0});
  if (reader.pending.size() == 1) send_pending(reader);
}

/// Sends of one reader in order; true when any completed.
bool Outbox::send_pending(Reader& reader) {
  bool completed = false;
  while (!reader.pending.empty()) {
    Pending& first = reader.pending.front();
    const Recipient recipient{reader.rank, first.tag.step()};
    if (first.sent == 0 && refer(first.data, {&recipient, 1}, first.tag, first.stamp, *first.done)) {
      reader.pending.pop_front();  // complete when the reader is done with it
      continue;
    }
    if (first.data.bytes > max_message()) {
      if (!send_fragment(reader, first)) break;
      if (first.sent < first.data.bytes) continue;
    } else if (!publish(first.data, {&recipient, 1}, first.tag, first.stamp)) {
      break;
    }
    first.done->succeed();
    reader.pending.pop_front();
    completed = true;
  }
  return completed;
}

bool Outbox::send_fragment(Reader& reader, Pending& pending) {
  const Recipient recipient{reader.rank, pending.tag.step()};
  const std::size_t bytes = std::min(max_message(), pending.data.bytes - pending.sent);
  std::byte* const room = reserve(bytes);
  if (room == nullptr || !have_cells({&recipient, 1})) return false;
  std::memcpy(room, pending.data.data + pending.sent, bytes);
  Arena& arena = arena_for(bytes);
  arena.take(bytes);
  const std::size_t i = slot(reader.rank);
  Cell& cell = next_cell(i, pending.tag, pending.stamp);
  cell.set_size(pending.data.bytes, Place::arena);
  cell.where = {static_cast<std::uint64_t>(room - view_.base()), bytes, pending.sent};
  hand_over(i, cell);
  arena.mark(tails_.data());
  wake({&recipient, 1});
  pending.sent += bytes;
  return true;
}

}  // namespace ucxring::shm
