#include "transport/roll_call.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "transport/base/error.hpp"

namespace ucxring {

RollCall::RollCall(Store& store, std::string_view purpose, Rank rank, int world_size,
                   std::chrono::milliseconds timeout)
    : store_(store),
      purpose_(purpose),
      rank_(rank),
      world_size_(world_size),
      timeout_(timeout),
      deadline_(Deadline::after(timeout)),
      generation_(store.add(fmt::format("{}/gen/{}", purpose, rank.value), 1)) {}

void RollCall::say(std::string_view step, const Store::Bytes& value) { store_.set(key(step, rank_), value); }

Store::Bytes RollCall::hear(std::string_view step, Rank peer) {
  try {
    return store_.get(key(step, peer), left());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::timeout) throw;
  }
  throw_timeout(step);
}

void RollCall::throw_timeout(std::string_view step) {
  std::vector<int> absent;
  for (int peer = 0; peer < world_size_; ++peer) {
    if (Rank(peer) != rank_ && !store_.check(key(step, Rank(peer)))) absent.push_back(peer);
  }
  throw Error(
      ErrorCode::timeout,
      fmt::format("{} {} of {} {} not joined within {:.3g} s (step {}/{}, attempt {} of "
                  "rank {}): start all ranks with the same world size and store, or raise the timeout",
                  absent.size() == 1 ? "rank" : "ranks", fmt::join(absent, ", "), world_size_,
                  absent.size() == 1 ? "has" : "have", static_cast<double>(timeout_.count()) / 1000.0,
                  purpose_, step, generation_, rank_.value));
}

std::string RollCall::key(std::string_view step, Rank rank) const {
  return fmt::format("{}/{}/{}/{}", purpose_, generation_, step, rank.value);
}

}  // namespace ucxring
