// Room for messages that several readers share, given out and taken back in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ucxring::shm {

/// A ring of bytes. What is reserved rotates through all of it, so that a line is written again only long
/// after its last reader was done: two alternating slots would bounce dirty lines between cores. Space is
/// taken back by *marks*: a mark remembers how far each reader's queue had been filled when the arena had
/// been filled so far; once the readers' acks have passed that, everything before the mark is free. Not
/// thread-safe.
class Arena {
 public:
  /// `base` is aligned to 64 bytes; `bytes` a multiple of 64.
  Arena(std::byte* base, std::size_t bytes) : base_(base), bytes_(bytes), limit_(bytes), marks_(2 * kMarks) {}

  /// The number of queues; before anything is taken.
  void set_readers(std::size_t readers) {
    for (Mark& mark : marks_) mark.tails.resize(readers);
  }

  /// Largest reservation.
  [[nodiscard]] std::size_t most() const noexcept { return bytes_ / 4; }

  /// Room for `bytes` ≤ `most()` bytes, aligned to 64; null when there is none. The same room again until
  /// `take`.
  [[nodiscard]] std::byte* reserve(std::size_t bytes) noexcept {
    const std::size_t skipped = skipped_for(bytes);
    if (head_ + skipped + round_up(bytes) > limit_) return nullptr;
    return base_ + (skipped == 0 ? place_ : 0);
  }
  /// Keeps the room that `reserve(bytes)` has just returned.
  void take(std::size_t bytes) noexcept {
    const std::size_t skipped = skipped_for(bytes);
    head_ += skipped + round_up(bytes);
    place_ = (skipped == 0 ? place_ : 0) + round_up(bytes);
    if (place_ == bytes_) place_ = 0;
  }

  /// Whether a mark is due.
  [[nodiscard]] bool wants_mark() const noexcept { return head_ - marked_ >= bytes_ / kMarks; }
  /// Remembers that what is taken so far is free once every reader's ack has reached `tails`.
  void mark(const std::uint64_t* tails) noexcept;
  /// Frees what lies before marks that all acks have passed; true when anything was freed.
  bool release(const std::uint64_t* acks) noexcept;

 private:
  static constexpr std::size_t kMarks = 16;

  [[nodiscard]] static std::uint64_t round_up(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }
  /// Bytes left unused at the end: reservations do not wrap around.
  [[nodiscard]] std::size_t skipped_for(std::size_t bytes) const noexcept {
    return place_ + bytes > bytes_ ? bytes_ - place_ : 0;
  }

  struct Mark {
    std::uint64_t head = 0;
    std::vector<std::uint64_t> tails;
  };

  std::byte* base_;
  std::size_t bytes_;
  std::uint64_t head_ = 0;    // bytes ever taken
  std::size_t place_ = 0;     // head_ modulo bytes_
  std::uint64_t limit_;       // head_ may grow up to here
  std::uint64_t marked_ = 0;  // head_ of the newest mark
  std::vector<Mark> marks_;   // a ring of 2 × kMarks
  std::size_t oldest_ = 0;
  std::size_t count_ = 0;
};

}  // namespace ucxring::shm
