// What ranks of one host find in each other's memory.
//
// Every rank owns one region, its *outbox*, which the others map read-only. It holds
//   - a header: whether the rank sleeps, needs room, or has left;
//   - for each rank an `Ack`: how much of that rank's messages this one has consumed;
//   - for each rank a queue of `Cell`s and a ring of control messages, written here, read there;
//   - two arenas, for small and for large messages: written once, read by every recipient where they lie.
// Nobody ever writes into another rank's memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/types.hpp"

namespace ucxring::shm {

inline constexpr std::size_t kLine = 64;
inline constexpr std::uint64_t kCells = 128;  ///< of one queue, a power of two
inline constexpr std::size_t kControlBytes = 8192;
inline constexpr std::size_t kSmallArena = std::size_t{32} << 10U;
inline constexpr std::size_t kSmallMessage = 8192;  ///< larger ones go through the large arena
inline constexpr std::size_t kReasonBytes = 960;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

/// Where the bytes of a cell's message lie.
enum class Place : std::uint8_t {
  cell,   ///< in the cell
  arena,  ///< in the sender's outbox, at `offset` from its start
  pool,   ///< in the sender's registered memory, at `offset` from its start
};

/// One message, or one fragment of a message too large for the arena. Valid for the reader of position i of
/// the queue when `turn` is i + 1; written again only after the reader's `Ack` has passed i.
struct alignas(kLine) Cell {
  static constexpr std::size_t kInlineBytes = 32;
  std::atomic<std::uint64_t> turn;
  std::uint64_t tag;
  Stamp stamp;
  std::uint64_t size_and_place;
  struct Where {
    std::uint64_t offset;          ///< of this fragment's bytes
    std::uint64_t bytes;           ///< of this fragment
    std::uint64_t message_offset;  ///< of this fragment in the message
  };
  union {
    Where where;
    std::byte data[kInlineBytes];
  };

  void set_size(std::size_t bytes, Place place) noexcept {
    size_and_place = bytes << kPlaceBits | static_cast<std::uint64_t>(place);
  }
  /// Bytes of the whole message.
  [[nodiscard]] std::size_t bytes() const noexcept { return size_and_place >> kPlaceBits; }
  [[nodiscard]] Place place() const noexcept { return static_cast<Place>(size_and_place & 0xff); }

 private:
  static constexpr int kPlaceBits = 8;
};
static_assert(sizeof(Cell) == kLine);

/// Progress of a reader, in its own outbox. Both count from the start of the group.
struct alignas(kLine) Ack {
  std::atomic<std::uint64_t> cells;
  std::atomic<std::uint64_t> control;  ///< bytes of control messages
};

/// Control messages to one rank: each a 32-bit length and its bytes, padded to 8 bytes, wrapping around.
struct alignas(kLine) ControlRing {
  std::atomic<std::uint64_t> written;  ///< bytes since the start of the group
  alignas(kLine) std::byte bytes[kControlBytes];
};

enum class State : std::uint32_t { open, left };

/// Start of an outbox.
struct Header {
  std::byte* owners_address;  ///< of this outbox in its owner's process; a name for flags, never followed
  /// Counts changes of `state`, of `needs_room` and of control messages: readers look at those when it moved.
  alignas(kLine) std::atomic<std::uint32_t> news;
  std::atomic<State> state;
  std::atomic<std::uint32_t> needs_room;  ///< for long: readers shall copy what they are not ready for
  std::atomic<std::uint32_t> wants_acks;  ///< the rank waits for acks and wants to be woken by them

  alignas(kLine) std::atomic<std::uint32_t> sleeping;  ///< who sends to this rank must ring

  alignas(kLine) std::uint32_t reason_code;  ///< why it left; valid when `state` is `left`
  std::uint32_t reason_bytes;
  char reason[kReasonBytes];
};

/// Offsets of the parts of an outbox.
struct Layout {
  std::size_t acks, queues, control, small_arena, large_arena, bytes;

  static constexpr Layout of(int world_size, std::size_t large_arena_bytes) noexcept {
    const auto ranks = static_cast<std::size_t>(world_size);
    Layout layout{};
    layout.acks = (sizeof(Header) + kLine - 1) / kLine * kLine;
    layout.queues = layout.acks + ranks * sizeof(Ack);
    layout.control = layout.queues + ranks * kCells * sizeof(Cell);
    layout.small_arena = layout.control + ranks * sizeof(ControlRing);
    layout.large_arena = layout.small_arena + kSmallArena;
    layout.bytes = layout.large_arena + large_arena_bytes;
    return layout;
  }
};

/// The parts of an outbox in memory: `Byte` is `std::byte` for the owner, `const std::byte` for readers.
template <typename Byte>
class OutboxView {
  template <typename T>
  using Like = std::conditional_t<std::is_const_v<Byte>, const T, T>;

 public:
  OutboxView() noexcept = default;
  OutboxView(Byte* base, const Layout& layout) noexcept : base_(base), layout_(layout) {}
  /// What the owner sees, as a reader.
  [[nodiscard]] OutboxView<const Byte> for_reader() const noexcept { return {base_, layout_}; }

  [[nodiscard]] Byte* base() const noexcept { return base_; }
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }
  [[nodiscard]] Like<Header>& header() const noexcept { return *at<Header>(0); }
  [[nodiscard]] Like<Ack>& ack(Rank of) const noexcept { return at<Ack>(layout_.acks)[index(of)]; }
  [[nodiscard]] Like<Cell>* queue(Rank to) const noexcept {
    return at<Cell>(layout_.queues) + index(to) * kCells;
  }
  [[nodiscard]] Like<ControlRing>& control(Rank to) const noexcept {
    return at<ControlRing>(layout_.control)[index(to)];
  }

 private:
  static std::size_t index(Rank rank) noexcept { return static_cast<std::size_t>(rank.value); }
  template <typename T>
  Like<T>* at(std::size_t offset) const noexcept {
    return reinterpret_cast<Like<T>*>(base_ + offset);
  }

  Byte* base_ = nullptr;
  Layout layout_{};
};

}  // namespace ucxring::shm
