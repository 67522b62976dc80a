// What all users in one process share for as long as there are any.
#pragma once

#include <memory>
#include <mutex>

#include "transport/base/process.hpp"

namespace ucxring {

/// The one `T` of each process while anybody holds it. A forked child gets one of its own. Thread-safe.
template <typename T>
class SharedPerProcess {
 public:
  /// The one that is held, or what `make` (which returns a `std::shared_ptr`, and may throw) makes.
  template <typename Make>
  [[nodiscard]] std::shared_ptr<T> get(const Make& make) {
    Held& held = held_.get();
    const std::lock_guard lock(held.mutex);
    std::shared_ptr<T> object = held.object.lock();
    if (!object) held.object = object = make();
    return object;
  }

 private:
  struct Held {
    std::mutex mutex;
    std::weak_ptr<T> object;
  };
  PerProcess<Held> held_;
};

}  // namespace ucxring
