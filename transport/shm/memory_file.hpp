// Memory with a descriptor: files that exist nowhere but in memory and vanish with their last user.
#pragma once

#include <cstddef>

#include "transport/base/descriptor.hpp"

namespace ucxring::shm {

/// Size of a memory page in bytes.
[[nodiscard]] std::size_t page_bytes() noexcept;

/// `bytes` rounded up to a multiple of `unit`, a power of two.
[[nodiscard]] constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) noexcept {
  return (bytes + unit - 1) & ~(unit - 1);
}

/// Size of a huge page in bytes; memory aligned to it can be mapped with fewer, larger entries.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// An empty file. `name` shows in /proc/PID/maps. Throws `Error`: transport where descriptors
/// or memory are scarce, unsupported where the system refuses such files.
[[nodiscard]] Descriptor make_memory_file(const char* name);

/// Largest file that this process may make, in bytes (RLIMIT_FSIZE).
[[nodiscard]] std::size_t file_size_limit() noexcept;

/// Really allocates the bytes from `offset` on, growing the file when it is shorter, so that touching them
/// later cannot fail. Throws `Error` (transport) that names the bytes, what is scarce and what to do; then
/// nothing stays allocated. Never raises SIGXFSZ or SIGBUS.
void allocate_pages(const Descriptor& file, std::size_t offset, std::size_t bytes);

/// Gives whole pages back; they read as zero until they are allocated again.
void free_pages(const Descriptor& file, std::size_t offset, std::size_t bytes) noexcept;

/// Fixes the size for ever, so that a reader's mapping stays valid whatever the owner does. With
/// `writable_by_owner_only`, mappings made later can only be read, and pages can no longer be freed.
void seal(const Descriptor& file, bool writable_by_owner_only);

/// Whether `descriptor` is a memory file of at least `bytes` bytes whose size is sealed.
[[nodiscard]] bool is_sealed(int descriptor, std::size_t bytes) noexcept;

/// Memory mapped from a file; unmapped on destruction.
class Mapping {
 public:
  enum class Access { read, read_write };

  Mapping() noexcept = default;
  /// Maps the first `bytes` bytes at a multiple of `alignment`, a power of two. No swap is set aside, and
  /// core dumps leave it out. Throws `Error` (transport).
  Mapping(int descriptor, std::size_t bytes, Access access, std::size_t alignment = page_bytes());
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ucxring::shm
