#include "collectives/control.hpp"

#include <algorithm>
#include <cstring>

#include "transport/transport.hpp"

namespace ucxring {

namespace {

/// Fixed part of the wire form; hosts of one group share a byte order.
struct Header {
  std::uint8_t kind;
  std::uint8_t code;
  std::uint16_t text_bytes;
  std::int32_t peer;
  std::int32_t origin;
  std::int32_t reserved;
  std::uint64_t sequence;
  std::uint64_t completed;
};

}  // namespace

std::vector<std::byte> encode(const ControlMessage& message) {
  const auto text_bytes = std::min(message.text.size(), Endpoint::kMaxControlBytes - sizeof(Header));
  const Header header{static_cast<std::uint8_t>(message.kind),
                      static_cast<std::uint8_t>(message.code),
                      static_cast<std::uint16_t>(text_bytes),
                      message.peer,
                      message.origin,
                      0,
                      message.sequence,
                      message.completed};
  std::vector<std::byte> wire(sizeof header + text_bytes);
  std::memcpy(wire.data(), &header, sizeof header);
  if (text_bytes > 0) std::memcpy(wire.data() + sizeof header, message.text.data(), text_bytes);
  return wire;
}

std::optional<ControlMessage> decode(std::span<const std::byte> wire) {
  Header header{};
  if (wire.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, wire.data(), sizeof header);
  const bool known = header.kind <= static_cast<std::uint8_t>(ControlMessage::Kind::greeting) &&
                     header.code <= static_cast<std::uint8_t>(ErrorCode::internal);
  if (!known || wire.size() != sizeof header + header.text_bytes) return std::nullopt;
  ControlMessage message{static_cast<ControlMessage::Kind>(header.kind),
                         static_cast<ErrorCode>(header.code),
                         header.peer,
                         header.origin,
                         header.sequence,
                         header.completed,
                         {}};
  message.text.assign(reinterpret_cast<const char*>(wire.data() + sizeof header), header.text_bytes);
  return message;
}

}  // namespace ucxring
