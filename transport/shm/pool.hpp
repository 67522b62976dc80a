// Registered memory: what this process hands out and the other processes of the host can read in place.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "transport/base/descriptor.hpp"
#include "transport/base/error.hpp"
#include "transport/shm/free_list.hpp"
#include "transport/shm/memory_file.hpp"

namespace ucxring::shm {

/// One memory file, mapped once as a whole, of which ranges are allocated and freed. Only what is allocated
/// takes memory; it is really there, so that a shortage is an error here and never a signal later.
/// Thread-safe.
///
/// After fork() a child sees the parent's registered memory and shares it with the parent: it is not copied
/// on write. The child neither frees what the parent allocated (its `free` does nothing) nor hands out more
/// of it: `process()` makes a pool of its own there.
class Pool {
 public:
  /// The pool of this process, made by the first call with room for all physical memory, 64 GiB at most, or
  /// what the limits of the process allow; never destroyed. When it cannot be made it is there all the same,
  /// without room: `allocate` says why.
  [[nodiscard]] static Pool& process() noexcept {
    Pool* const pool = of_process.load(std::memory_order_acquire);
    return pool != nullptr ? *pool : make_for_process();
  }

  /// A pool with room for `bytes`, a multiple of the page size. Throws `Error` (transport).
  explicit Pool(std::size_t bytes);

  /// Memory of at least `bytes` bytes, zeroed, aligned to 4 KiB, from 2 MiB on to 2 MiB. Throws `Error`
  /// (transport) that names the bytes, what is scarce and what to do.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  /// Gives back what `allocate` returned, and its pages to the system.
  void free(std::byte* memory) noexcept;

  /// Whether all `bytes` bytes at `address` lie here.
  [[nodiscard]] bool contains(const void* address, std::size_t bytes) const noexcept {
    const std::size_t offset = offset_of(address);
    return offset < memory_.bytes() && bytes <= memory_.bytes() - offset;
  }
  /// Distance of `address`, which this contains, from the start of the file.
  [[nodiscard]] std::size_t offset_of(const void* address) const noexcept {
    return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(memory_.data());
  }
  /// Start of the memory; null without room.
  [[nodiscard]] std::byte* data() const noexcept { return memory_.data(); }
  /// Owned by this; -1 without room.
  [[nodiscard]] int fd() const noexcept { return file_.get(); }
  /// Room, in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.bytes(); }
  /// Bytes that are allocated now, in whole pages.
  [[nodiscard]] std::size_t used() const;

 private:
  explicit Pool(Status why_empty) : free_(0), why_empty_(std::move(why_empty)) {}
  static Pool& make_for_process() noexcept;
  static Pool* make_or_explain();

  static inline std::atomic<Pool*> of_process = nullptr;  // leaks on purpose: in use until the process ends

  Descriptor file_;
  Mapping memory_;
  std::atomic<bool> inherited_ = false;  // this is a forked child's view of its parent's pool
  mutable std::mutex mutex_;
  FreeList free_;
  std::map<std::size_t, std::size_t> allocated_;  // offset → bytes
  Status why_empty_;
};

}  // namespace ucxring::shm
