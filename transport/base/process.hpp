// What belongs to one process, and must not be used by the children that it forks.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace ucxring {

/// Marks an object with the process that made it. A forked child has a copy of the object, but neither its
/// threads nor its connections, and its locks may be held by threads that are not there: the child must leave
/// it alone, destructors included.
class ProcessMark {
 public:
  ProcessMark() noexcept : generation_(registered_generation()) {}
  /// Whether this is the process in which the mark was made. Costs a load and a comparison.
  [[nodiscard]] bool is_here() const noexcept {
    return generation_ == generation.load(std::memory_order_relaxed);
  }

 private:
  static std::uint64_t registered_generation() noexcept {
    static const int registered =
        pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
    static_cast<void>(registered);
    return generation.load(std::memory_order_relaxed);
  }

  static inline std::atomic<std::uint64_t> generation{0};  // forks between the first process and this one

  std::uint64_t generation_;
};

/// Gives `object` up without ending it: what a forked child does with what is its parent's.
template <typename T>
void leak(T& object) {
  static_cast<void>(new T(std::move(object)));
}

/// The one `T` of each process. A forked child gets one of its own, made anew. Never destroyed: it may be in
/// use until the process ends. Thread-safe, and takes no lock that a fork could leave held.
template <typename T>
class PerProcess {
 public:
  /// This process's, made by `make` (which returns a `std::unique_ptr`) if there is none. Threads that come
  /// at the same time may each make one; all but one are destroyed again.
  template <typename Make>
  [[nodiscard]] T& get(const Make& make) {
    Made* known = made_.load(std::memory_order_acquire);
    if (is_of_here(known)) return *known->object;
    auto fresh = std::make_unique<Made>(Made{{}, make()});
    while (!made_.compare_exchange_strong(known, fresh.get())) {
      if (is_of_here(known)) return *known->object;
    }
    return *fresh.release()->object;
  }
  [[nodiscard]] T& get() { return get(&std::make_unique<T>); }

  /// This process's, or null when nobody has made one here.
  [[nodiscard]] T* find() const noexcept {
    const Made* known = made_.load(std::memory_order_acquire);
    return is_of_here(known) ? known->object.get() : nullptr;
  }

 private:
  struct Made {
    ProcessMark mark;
    std::unique_ptr<T> object;
  };
  static bool is_of_here(const Made* made) noexcept { return made != nullptr && made->mark.is_here(); }

  std::atomic<Made*> made_{nullptr};
};

}  // namespace ucxring
