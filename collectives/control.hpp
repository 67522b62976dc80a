// Control messages between the members of a group: failures, and who has arrived.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/types.hpp"

namespace ucxring {

/// What one rank tells another beside data.
struct ControlMessage {
  enum class Kind : std::uint8_t {
    failure,   ///< the group has failed: `code`, `peer`, `text`, noticed by `origin`; relayed by every rank
    query,     ///< asks for an `answer` about operation `sequence`
    answer,    ///< `sequence`: newest operation started, `completed`: newest of which all before it are
               ///< complete too, `text`: the stamp of the operation asked about, if it is remembered
    greeting,  ///< says nothing, but opens the connection, over which each side hears when the other leaves
  };
  Kind kind = Kind::query;
  ErrorCode code = ErrorCode::ok;
  std::int32_t peer = -1;
  std::int32_t origin = -1;
  std::uint64_t sequence = 0;
  std::uint64_t completed = 0;
  std::string text;
};

/// Wire form, at most `Endpoint::kMaxControlBytes`; longer texts are cut.
[[nodiscard]] std::vector<std::byte> encode(const ControlMessage& message);

/// Nothing for malformed input.
[[nodiscard]] std::optional<ControlMessage> decode(std::span<const std::byte> wire);

}  // namespace ucxring
