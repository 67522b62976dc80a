// What travels in the headers of active messages. All ranks of a group run on machines of one byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "transport/base/token.hpp"
#include "transport/types.hpp"

namespace ucxring::ucx {

/// Raised whenever the headers, the entries in the store or the meaning of either change.
inline constexpr std::uint32_t kProtocolVersion = 1;

/// 128 random bits made by rank 0. Messages without them are not of this group.
using GroupSecret = Token;

/// Ids of the active messages.
enum class MessageKind : unsigned { data = 1, control = 2 };

/// From whom, to whom, in which group: the head of every header.
struct Route {
  GroupSecret secret{};
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
};

/// Header of a data message, or of one fragment of it.
struct DataHeader {
  Route route;
  std::uint64_t tag = 0;
  std::uint64_t stamp = 0;
  std::uint64_t total = 0;   ///< bytes of the whole message
  std::uint64_t offset = 0;  ///< where this fragment begins in it
};

enum class ControlKind : std::uint32_t {
  hello = 1,    ///< makes the receiver open its own endpoint, so that either side sees the other die
  user = 2,     ///< for `Listener::on_control`
  goodbye = 3,  ///< the sender leaves the group on purpose; nothing follows
};

/// Header of a control message; the user's bytes are its data.
struct ControlHeader {
  Route route;
  std::uint32_t kind = 0;
  std::uint32_t reserved = 0;
};

/// The header of type `Header` in received bytes; nothing when the length is not exactly right.
template <typename Header>
[[nodiscard]] std::optional<Header> read_header(const void* bytes, std::size_t length) noexcept {
  if (length != sizeof(Header) || bytes == nullptr) return std::nullopt;
  Header header;
  std::memcpy(&header, bytes, sizeof(header));
  return header;
}

/// Whether a fragment of `length` bytes as `header` claims lies inside its message.
[[nodiscard]] constexpr bool is_sound(const DataHeader& header, std::size_t length) noexcept {
  if (header.offset > header.total || length > header.total - header.offset) return false;
  return length > 0 || header.total == 0;
}

}  // namespace ucxring::ucx
