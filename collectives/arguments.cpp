#include "collectives/arguments.hpp"

#include <fmt/format.h>

#include <limits>

namespace ucxring::arguments {
namespace {

[[noreturn]] void refuse(std::string_view what, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", what, why));
}

}  // namespace

void throw_no_elements(std::string_view what, std::size_t bytes, DataType type) {
  refuse(what, fmt::format("{} bytes are no whole number of {} elements of {} bytes", bytes, to_string(type),
                           size_of(type)));
}

void throw_other_size(std::string_view what, std::string_view buffer, std::size_t have, std::size_t want,
                      std::string_view rule) {
  refuse(what, fmt::format("{} has {} bytes, but {} {}", buffer, have, rule, want));
}

void throw_overlap(std::string_view what, bool has_in_place) {
  refuse(what, has_in_place ? "input and output overlap other than in place; use separate buffers"
                            : "input and output overlap; it has no form in place: use separate buffers");
}

std::size_t bytes_of(std::string_view what, std::size_t count, DataType type) {
  const std::size_t size = size_of(type);
  if (count <= std::numeric_limits<std::size_t>::max() / size) return count * size;
  refuse(what, fmt::format("{} elements of {} are more than memory can hold", count, to_string(type)));
}

std::size_t total(std::string_view what, std::span<const std::size_t> counts, int world_size) {
  if (counts.size() != static_cast<std::size_t>(world_size)) {
    refuse(what, fmt::format("there are {} counts, but this group has {} ranks", counts.size(), world_size));
  }
  std::size_t sum = 0;
  for (const std::size_t count : counts) {
    if (__builtin_add_overflow(sum, count, &sum)) {
      refuse(what, "the counts add up to more than memory can hold");
    }
  }
  return sum;
}

std::size_t before(std::span<const std::size_t> counts, Rank rank) noexcept {
  std::size_t sum = 0;
  for (const std::size_t count : counts.first(static_cast<std::size_t>(rank.value))) sum += count;
  return sum;
}

void require_root(std::string_view what, Rank root, int world_size) {
  if (root.value >= 0 && root.value < world_size) return;
  refuse(what, fmt::format("root {} is not a rank of this group of {}", root.value, world_size));
}

}  // namespace ucxring::arguments
