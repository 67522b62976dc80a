// A point in time after which waiting is an error.
#pragma once

#include <algorithm>
#include <chrono>

namespace ucxring {

/// Steady-clock deadline, or never.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  /// Never passes.
  constexpr Deadline() noexcept = default;
  constexpr explicit Deadline(Clock::time_point at) noexcept : at_(at) {}
  [[nodiscard]] static Deadline after(Clock::duration timeout) { return Deadline(Clock::now() + timeout); }

  [[nodiscard]] constexpr Clock::time_point at() const noexcept { return at_; }
  [[nodiscard]] bool passed(Clock::time_point now = Clock::now()) const noexcept { return now >= at_; }
  /// Time left, never negative, at most `limit`.
  [[nodiscard]] std::chrono::milliseconds left(std::chrono::milliseconds limit) const {
    const auto now = Clock::now();
    if (now >= at_) return std::chrono::milliseconds(0);
    if (at_ == Clock::time_point::max()) return limit;
    return std::min(limit, std::chrono::ceil<std::chrono::milliseconds>(at_ - now));
  }

 private:
  Clock::time_point at_ = Clock::time_point::max();
};

}  // namespace ucxring
