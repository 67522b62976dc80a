// Which ranges of a memory are free.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace ucxring::shm {

/// Free ranges of [0, bytes): the smallest that fits is taken, neighbours are merged when they are given
/// back. Logarithmic in the number of free ranges, but for a large alignment. Not thread-safe.
class FreeList {
 public:
  explicit FreeList(std::size_t bytes);

  /// Takes `bytes` > 0 at a multiple of `alignment`, a power of two; the offset, or nothing when no range
  /// fits.
  [[nodiscard]] std::optional<std::size_t> take(std::size_t bytes, std::size_t alignment);
  /// Gives back what was taken, as a whole or in parts.
  void give_back(std::size_t offset, std::size_t bytes);

  [[nodiscard]] std::size_t free_bytes() const noexcept { return free_bytes_; }
  [[nodiscard]] std::size_t largest() const noexcept {
    return by_size_.empty() ? 0 : by_size_.rbegin()->first;
  }
  [[nodiscard]] std::size_t ranges() const noexcept { return by_place_.size(); }

 private:
  using Places = std::map<std::size_t, std::size_t>;
  void add(std::size_t offset, std::size_t bytes);
  Places::iterator remove(Places::iterator range);

  Places by_place_;                                        // offset → bytes
  std::set<std::pair<std::size_t, std::size_t>> by_size_;  // (bytes, offset)
  std::size_t free_bytes_;
};

}  // namespace ucxring::shm
