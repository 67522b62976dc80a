// What two ranks tell each other over the socket through which they try to share memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transport/base/token.hpp"
#include "transport/types.hpp"

namespace ucxring::shm {

/// The descriptors of memory and doorbell travel beside it, in the order of `Enclosed`.
struct Hello {
  Rank rank;        ///< the sender
  Token secret{};   ///< the one that the receiver has published: proof that the sender is in the group
  Token context{};  ///< names the sender's context
  Token process{};  ///< names its process
  Token region{};   ///< lies in its outbox
  std::uint64_t outbox_bytes = 0;
  std::uint64_t pool_bytes = 0;  ///< of registered memory; 0: none

  friend bool operator==(const Hello&, const Hello&) = default;
};

/// Descriptors of a hello; the last is absent without registered memory.
enum class Enclosed : std::size_t { outbox, doorbell, lifeline, pool };

/// Largest hello in bytes and in descriptors.
inline constexpr std::size_t kHelloBytes = 128;
inline constexpr std::size_t kHelloDescriptors = 4;

[[nodiscard]] std::vector<std::byte> encode(const Hello& hello);

/// The inverse; nothing for anything that is no hello of this version, does not fit the number of descriptors
/// that came with it, or states sizes that no memory has.
[[nodiscard]] std::optional<Hello> decode_hello(std::span<const std::byte> bytes, std::size_t descriptors);

}  // namespace ucxring::shm
