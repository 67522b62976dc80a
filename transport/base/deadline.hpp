// A point in time after which waiting is an error.
#pragma once

#include <algorithm>
#include <chrono>

namespace ucxring {

/// `now` + `timeout`, or the end of time where that is beyond it: a timeout of centuries is none.
[[nodiscard]] constexpr std::chrono::steady_clock::time_point saturating_sum(
    std::chrono::steady_clock::time_point now, std::chrono::milliseconds timeout) noexcept {
  using Clock = std::chrono::steady_clock;
  const auto most = std::chrono::floor<std::chrono::milliseconds>(Clock::duration::max() / 2);
  if (timeout >= most || now.time_since_epoch() >= Clock::duration::max() / 2)
    return Clock::time_point::max();
  return now + timeout;
}

/// Steady-clock deadline, or never.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  /// Never passes.
  constexpr Deadline() noexcept = default;
  constexpr explicit Deadline(Clock::time_point at) noexcept : at_(at) {}
  /// `timeout` from now; never when that is beyond the end of the clock.
  [[nodiscard]] static Deadline after(std::chrono::milliseconds timeout) {
    return Deadline(saturating_sum(Clock::now(), timeout));
  }

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
