// How a message from one rank to another travels: what its tag and its stamp say.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/reduce/types.hpp"
#include "transport/types.hpp"

namespace ucxring {

/// The head of a message from `send`. Sequence, lane and step of the transport's tag, and the stamp, hold all
/// of it, so that a receiver knows what has come before it fetches a byte.
///
///     tag    | number in the pair 24 | user's tag, low 20 | 1, kind 2, 0 × 5, user's tag, high 12 |
///     stamp  | 31, which no collective has, 5 | dtype 5 | 0 × 6 | bytes 48 |
///
/// The number counts the messages from this sender to this receiver, whatever their user's tags, and makes
/// every tag unique. Messages of collectives have a 0 where these have the 1.
struct PeerMessage {
  enum class Kind : std::uint8_t {
    eager,  ///< the message itself, posted at once
    offer,  ///< no bytes: says that a large message waits for its receive
    ready,  ///< no bytes, back to the sender: the receive is there
    data,   ///< a slice of the large message
  };

  std::uint64_t number = 0;  ///< from 1; a received one is modulo 2^24
  std::int32_t tag = 0;      ///< the user's
  DataType type = DataType::uint8;
  std::uint64_t bytes = 0;

  /// The tag of the `eager`, `offer` or `ready` message.
  [[nodiscard]] Tag wire_tag(Kind kind) const noexcept;
  [[nodiscard]] Stamp stamp() const noexcept;
  /// The step field of the tags of `data` messages, whose sequence is `number`.
  [[nodiscard]] static std::uint32_t data_step() noexcept;

  /// Whether a message is one of these and not of a collective.
  [[nodiscard]] static bool is(Tag tag) noexcept;
  [[nodiscard]] static Kind kind_of(Tag tag) noexcept;
  [[nodiscard]] static PeerMessage read(Tag tag, Stamp stamp) noexcept;

  /// The full number of a received message, given one nearby.
  [[nodiscard]] std::uint64_t full_number(std::uint64_t nearby) const noexcept;
};

/// "float32, 8 elements, tag 3"; a count of bytes where they are no whole number of elements.
[[nodiscard]] std::string describe_message(DataType type, std::uint64_t bytes, std::int32_t tag);

}  // namespace ucxring
