// The only place where ranks of a loopback group touch each other: a locked inbox per rank.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "transport/base/descriptor.hpp"
#include "transport/types.hpp"

namespace ucxring::loopback {

/// What one rank tells another.
struct Message {
  enum class Kind : std::uint8_t {
    eager,       ///< `copy` holds the bytes
    rendezvous,  ///< the bytes lie at `data` in the sender's buffer; answer with `consumed`
    consumed,    ///< the rendezvous message number `send` needs its buffer no more
    control,     ///< `copy` holds the message
    left,        ///< the rank aborted or went away, says `status`
    lost,        ///< the rank was killed, says `status`
  };
  Kind kind = Kind::eager;
  Rank from;
  Tag tag;
  Stamp stamp = 0;
  std::size_t bytes = 0;
  const std::byte* data = nullptr;
  std::uint64_t send = 0;
  std::vector<std::byte> copy{};
  Status status{};
};

/// Inbox of one rank. Any thread pushes; the owner takes, arms and sleeps.
class Port {
 public:
  Port();  ///< throws `Error` (transport) when the system has no eventfd left

  /// Appends `message` and wakes an armed owner.
  void push(Message message);
  /// Swaps everything that has arrived into `batch`, which must be empty; false when there is nothing.
  bool take(std::vector<Message>& batch);
  /// As `Context::arm`.
  bool arm();
  [[nodiscard]] int event_fd() const noexcept { return event_.get(); }

 private:
  Descriptor event_;
  std::mutex mutex_;
  std::vector<Message> inbox_;       // under mutex_
  bool armed_ = false;               // under mutex_
  std::atomic<bool> filled_{false};  // spares the lock of a poll that finds nothing
};

}  // namespace ucxring::loopback
