// Steps that all ranks of a group take together through the store.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "transport/base/deadline.hpp"
#include "transport/base/error.hpp"
#include "transport/store.hpp"
#include "transport/types.hpp"

namespace ucxring {

/// The roll calls in which the ranks of a group meet, and the first step of each.
constexpr std::string_view kShmRollCall = "shm";
constexpr std::string_view kShmFirstStep = "card";
constexpr std::string_view kUcxRollCall = "ucx";
constexpr std::string_view kUcxFirstStep = "rank";

/// What each rank says in each step, under keys of its own. A store that holds keys of earlier groups may be
/// used again: each rank counts its roll calls, and equal counts meet.
class RollCall {
 public:
  /// `purpose` ("shm") keeps roll calls for different ends apart.
  RollCall(Store& store, std::string_view purpose, Rank rank, int world_size,
           std::chrono::milliseconds timeout);

  /// Says `value` in `step`.
  void say(std::string_view step, const Store::Bytes& value);
  /// Says in `step` that this rank takes no part: whoever hears it gets `why` as an error.
  void refuse(std::string_view step, const Status& why);
  /// What `peer` says in `step`. Throws `Error` (timeout) that names all ranks that have not come to it, or
  /// (mismatch) why the peer refuses to take part. A caller checks what one rank says before it waits for the
  /// next: of two groups that disagree about their size, the larger one would else wait for a rank that never
  /// comes.
  [[nodiscard]] Store::Bytes hear(std::string_view step, Rank peer);
  /// Time left.
  [[nodiscard]] std::chrono::milliseconds left() const { return deadline_.left(timeout_); }
  /// Throws that timeout.
  [[noreturn]] void throw_timeout(std::string_view step);

 private:
  [[nodiscard]] std::string key(std::string_view step, Rank rank) const;

  Store& store_;
  std::string purpose_;
  Rank rank_;
  int world_size_;
  std::chrono::milliseconds timeout_;
  Deadline deadline_;
  std::int64_t generation_;
};

}  // namespace ucxring
