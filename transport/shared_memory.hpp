// Messages in memory that ranks of one host share: written once for several readers, read where they lie.
#pragma once

#include <span>

#include "transport/types.hpp"

namespace ucxring {

/// Who gets a published message, and the step field of the tag it has for him.
struct Recipient {
  Rank peer;
  std::uint32_t step = 0;
};

/// What a transport over shared memory can do beyond its endpoints. Messages are the same ones: what is
/// published here may be received by an endpoint, and the other way round. Thread rule as for `Transport`.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;

  /// Whether this rank shares memory with `peer` (with itself it does).
  [[nodiscard]] virtual bool reaches(Rank peer) const noexcept = 0;

  /// Cores that the ranks of this host may use together.
  [[nodiscard]] virtual int cores() const noexcept = 0;
  /// Whether the ranks of this host have fewer cores than they are: who waits should give up its core at
  /// once.
  [[nodiscard]] virtual bool oversubscribed() const noexcept = 0;

  /// Largest message of the functions below, in bytes.
  [[nodiscard]] virtual std::size_t max_message() const noexcept = 0;

  /// Room for a message of `bytes` bytes, aligned to 64 bytes, to be filled and given to `commit` before
  /// anything else is sent; null while the readers have left no room.
  [[nodiscard]] virtual std::byte* reserve(std::size_t bytes) noexcept = 0;

  /// Sends the `bytes` bytes at `room`, the last result of `reserve`, to every recipient. `tag` gives
  /// sequence and lane. False, with nothing sent and the room given back, when a recipient's queue is full.
  [[nodiscard]] virtual bool commit(const std::byte* room, std::size_t bytes,
                                    std::span<const Recipient> recipients, Tag tag, Stamp stamp) noexcept = 0;

  /// Copies and sends `data` to every recipient; false, with nothing sent, while there is no room.
  [[nodiscard]] virtual bool publish(ConstBuffer data, std::span<const Recipient> recipients, Tag tag,
                                     Stamp stamp) noexcept = 0;

  /// Whether `refer` sends `data` without a copy: it is registered memory and large enough.
  [[nodiscard]] virtual bool refers(ConstBuffer data) const noexcept = 0;
  /// Sends `data` without a copy: it must stay unchanged until `done` finished. False, with nothing sent and
  /// `done` idle, when that is impossible or while there is no room.
  [[nodiscard]] virtual bool refer(ConstBuffer data, std::span<const Recipient> recipients, Tag tag,
                                   Stamp stamp, Completion& done) = 0;

  /// A message that has arrived.
  struct Message {
    const std::byte* data = nullptr;  ///< null when the message has not come
    Stamp stamp = 0;
    std::size_t bytes = 0;
  };
  /// The message `tag` of `peer` where it lies, whatever its stamp and size. It stays there until `release`
  /// or the next `Context::progress()`, which may move it.
  [[nodiscard]] virtual Message peek(Rank peer, Tag tag) noexcept = 0;
  /// Gives the message back that `peek` of the same tag found. False if it lay in memory that its sender may
  /// have changed meanwhile, since he has given up: what was read there is not to be trusted.
  virtual bool release(Rank peer, Tag tag) noexcept = 0;

  /// Whether `peek` has passed over messages of which `Listener::on_unexpected` has not been told yet. The
  /// next `Context::progress()` tells.
  [[nodiscard]] virtual bool overlooked() const noexcept = 0;

  /// Why `peer` will send nothing more; ok while it may.
  [[nodiscard]] virtual const Status& gone(Rank peer) const noexcept = 0;

  /// Says that this thread looks at messages itself for a while: peers need not wake anybody here. Returns
  /// whether they would have; whoever sleeps is then not woken by them any more.
  virtual bool stay_awake() noexcept = 0;
};

}  // namespace ucxring
