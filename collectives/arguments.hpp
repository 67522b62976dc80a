// Checks of what callers pass to a collective, before anything is sent. Each throws `Error`
// (invalid_argument) that begins with the name of the collective. Checks are inline and what they throw is
// not: small operations feel the difference.
#pragma once

#include <bit>
#include <cstddef>
#include <span>
#include <string_view>

#include "collectives/reduce/types.hpp"
#include "transport/types.hpp"

namespace ucxring::arguments {

[[noreturn]] void throw_no_elements(std::string_view what, std::size_t bytes, DataType type);
[[noreturn]] void throw_other_size(std::string_view what, std::string_view buffer, std::size_t have,
                                   std::size_t want, std::string_view rule);
[[noreturn]] void throw_overlap(std::string_view what, bool has_in_place);

/// The number of elements of `type` in `bytes` bytes, which must be whole.
[[nodiscard]] inline std::size_t elements(std::string_view what, std::size_t bytes, DataType type) {
  const std::size_t size = size_of(type);  // a power of two
  if ((bytes & (size - 1)) != 0) throw_no_elements(what, bytes, type);
  return bytes >> std::countr_zero(size);
}

/// The bytes of `count` elements of `type`, which must be fewer than an address can count.
[[nodiscard]] std::size_t bytes_of(std::string_view what, std::size_t count, DataType type);

/// The sum of `counts`, of which there must be one for each rank.
[[nodiscard]] std::size_t total(std::string_view what, std::span<const std::size_t> counts, int world_size);

/// The sum of the counts before that of `rank`.
[[nodiscard]] std::size_t before(std::span<const std::size_t> counts, Rank rank) noexcept;

/// `have` bytes of the `buffer` ("output") must be `want`; `rule` says why: "world size times the input is".
inline void require_bytes(std::string_view what, std::string_view buffer, std::size_t have, std::size_t want,
                          std::string_view rule) {
  if (have != want) throw_other_size(what, buffer, have, want, rule);
}

/// `root` must be a rank of the group.
void require_root(std::string_view what, Rank root, int world_size);

/// Two buffers may be the same memory, the first beginning at `allowed` (null: they may not), or not touch at
/// all.
inline void require_no_overlap(std::string_view what, ConstBuffer inner, ConstBuffer outer,
                               const std::byte* allowed) {
  const bool apart = inner.data + inner.bytes <= outer.data || outer.data + outer.bytes <= inner.data;
  if (!apart && inner.bytes != 0 && outer.bytes != 0 && inner.data != allowed) {
    throw_overlap(what, allowed != nullptr);
  }
}

}  // namespace ucxring::arguments
