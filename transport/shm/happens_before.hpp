// What ThreadSanitizer has to be told when ranks are threads of one process.
//
// It follows "happens before" by the addresses of atomics, and takes the mappings of one outbox by its owner
// and by its readers for different memory. Registered memory has one address for all threads of a process:
// without these words every read of it by another rank would look like a race. They name a flag by where its
// owner has it, through memory of our own: the owner may be another process, or gone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace ucxring::shm {

#if defined(__SANITIZE_THREAD__)
/// What stands for the flag that its owner has at `address`. Flags that share one only look more ordered.
inline void* stand_in(std::uintptr_t address) noexcept {
  static std::array<std::uint64_t, 1U << 16U> all{};
  constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15U;  // Fibonacci hashing
  return &all[(address * kGoldenRatio) >> 48U];
}
#endif

/// This thread releases the flag `flag` of its own outbox.
inline void releases([[maybe_unused]] const void* flag) noexcept {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(stand_in(reinterpret_cast<std::uintptr_t>(flag)));
#endif
}

/// This thread has acquired `flag`, which it sees in the view at `view` of an outbox that lies at `owners`
/// for its owner.
inline void acquired([[maybe_unused]] const void* flag, [[maybe_unused]] const std::byte* view,
                     [[maybe_unused]] const std::byte* owners) noexcept {
#if defined(__SANITIZE_THREAD__)
  const std::ptrdiff_t offset = static_cast<const std::byte*>(flag) - view;
  __tsan_acquire(stand_in(reinterpret_cast<std::uintptr_t>(owners) + static_cast<std::uintptr_t>(offset)));
#endif
}

/// What this thread has loaded before it loads before what comes next.
inline void loads_before() noexcept {
#if !defined(__SANITIZE_THREAD__)  // which knows no fences
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

}  // namespace ucxring::shm
