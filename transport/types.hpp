// Vocabulary of the transport layer: ranks, buffers, tags, sinks and completions.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/base/error.hpp"

namespace ucxring {

/// A point in time of a `Context`: the steady clock on real transports, virtual time in the simulator.
using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

/// Position of a process in its group, 0 … world size − 1.
struct Rank {
  int value = -1;
  constexpr Rank() noexcept = default;
  constexpr explicit Rank(int rank) noexcept : value(rank) {}
  friend constexpr auto operator<=>(Rank, Rank) noexcept = default;
};

/// Where a buffer's bytes live.
enum class MemoryKind : std::uint8_t { host, cuda };

/// Writable bytes owned by the caller until the operation that got them completes or its group has failed.
struct Buffer {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::host;
};

/// Readable bytes, same ownership rule as `Buffer`.
struct ConstBuffer {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::host;

  ConstBuffer() noexcept = default;
  ConstBuffer(const std::byte* begin, std::size_t size, MemoryKind memory = MemoryKind::host) noexcept
      : data(begin), bytes(size), kind(memory) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a writable buffer is readable
  ConstBuffer(Buffer buffer) noexcept : data(buffer.data), bytes(buffer.bytes), kind(buffer.kind) {}
};

/// Identity of one message between an ordered pair of ranks of a group. Messages are matched by tag, never by
/// order of arrival. A tag may be used again once its sequence number has wrapped around.
class Tag {
 public:
  static constexpr int kSequenceBits = 24;  ///< operation number in the group, wraps around
  static constexpr int kLaneBits = 20;      ///< independent stream inside the operation, wraps around
  static constexpr int kStepBits = 20;      ///< n-th message of the lane from this sender to this receiver

  constexpr Tag() noexcept = default;
  /// Fields larger than their width wrap around for `sequence` and `lane`; `step` must fit (checked by the
  /// planner).
  static constexpr Tag make(std::uint64_t sequence, std::uint64_t lane, std::uint64_t step) noexcept {
    Tag tag;
    tag.bits_ = (mask(sequence, kSequenceBits) << (kLaneBits + kStepBits)) |
                (mask(lane, kLaneBits) << kStepBits) | mask(step, kStepBits);
    return tag;
  }
  static constexpr Tag from_bits(std::uint64_t bits) noexcept {
    Tag tag;
    tag.bits_ = bits;
    return tag;
  }
  [[nodiscard]] constexpr std::uint64_t bits() const noexcept { return bits_; }
  [[nodiscard]] constexpr std::uint32_t sequence() const noexcept {
    return static_cast<std::uint32_t>(bits_ >> (kLaneBits + kStepBits));
  }
  [[nodiscard]] constexpr std::uint32_t lane() const noexcept {
    return static_cast<std::uint32_t>(mask(bits_ >> kStepBits, kLaneBits));
  }
  [[nodiscard]] constexpr std::uint32_t step() const noexcept {
    return static_cast<std::uint32_t>(mask(bits_, kStepBits));
  }
  friend constexpr auto operator<=>(Tag, Tag) noexcept = default;

 private:
  static constexpr std::uint64_t mask(std::uint64_t value, int width) noexcept {
    return value & ((std::uint64_t{1} << width) - 1);
  }
  std::uint64_t bits_ = 0;
};

/// Opaque 64 bits that travel with each message and must be equal on both sides, else the receive completes
/// with `mismatch` and no byte is delivered. The collectives layer puts the operation's fingerprint there.
using Stamp = std::uint64_t;

/// Consumer of a message's bytes where they lie. `apply` is called from `Context::progress()`, one or more
/// times, with consecutive ranges that cover the message exactly once and whose offsets are multiples of 64
/// bytes; `bytes` is readable only during the call. It must neither block nor call the transport.
struct Sink {
  void (*apply)(void* context, std::size_t offset, std::span<const std::byte> bytes) = nullptr;
  void* context = nullptr;
};

/// State of one posted operation. Owned by the poster, must stay in place until `finished()`, written only by
/// the transport inside calls made by the thread that drives the context. Completions never run user code.
struct Completion {
  enum class State : std::uint8_t { idle, pending, done, failed };
  State state = State::idle;
  Stamp received_stamp = 0;        ///< of the message that failed to match (`mismatch` only)
  std::size_t received_bytes = 0;  ///< likewise its size
  Status status;                   ///< the failure when `state` is `failed`

  [[nodiscard]] bool finished() const noexcept { return state != State::pending; }
  void start() noexcept { state = State::pending; }
  void succeed() noexcept { state = State::done; }
  void fail(Status why) noexcept {
    status = static_cast<Status&&>(why);
    state = State::failed;
  }
};

}  // namespace ucxring
