// Memory that one process writes and others read.
#pragma once

#include <cstddef>

#include "transport/base/descriptor.hpp"
#include "transport/base/token.hpp"
#include "transport/shm/memory_file.hpp"

namespace ucxring::shm {

/// Memory of this process that others may map read-only through `fd()`. Really allocated, zeroed, of fixed
/// size. Frees itself when the last process that maps it has ended, however that ends.
class Region {
 public:
  /// `bytes` > 0; `name` shows in /proc/PID/maps. Throws `Error` (transport) that names the bytes needed,
  /// what is scarce and the remedy.
  [[nodiscard]] static Region create(std::size_t bytes, const char* name);

  [[nodiscard]] std::byte* data() const noexcept { return memory_.data(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Owned by this.
  [[nodiscard]] int fd() const noexcept { return file_.get(); }
  /// Written behind the bytes, so that a reader can tell that it maps this very region.
  [[nodiscard]] const Token& token() const noexcept { return token_; }

 private:
  Region() = default;

  Descriptor file_;
  Mapping memory_;
  std::size_t bytes_ = 0;
  Token token_{};
};

/// The `Region` of another process, mapped read-only.
class RegionView {
 public:
  RegionView() noexcept = default;
  /// Maps the region of `bytes` bytes behind `fd`, which may be closed afterwards. Throws `Error`
  /// (transport), also when `fd` is no region of that size: reading it never raises SIGBUS.
  RegionView(int fd, std::size_t bytes);

  [[nodiscard]] const std::byte* data() const noexcept { return memory_.data(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The token that lies behind the bytes now.
  [[nodiscard]] Token token() const noexcept;

 private:
  Mapping memory_;
  std::size_t bytes_ = 0;
};

}  // namespace ucxring::shm
