#include "transport/roll_call.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

namespace ucxring {

namespace {

/// What a refusal begins with; the version of a card or of an entry is a small number instead.
constexpr std::string_view kRefusal = "refused: ";

std::string text_of(const Store::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

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

void RollCall::refuse(std::string_view step, const Status& why) {
  const std::string text = fmt::format("{}{}", kRefusal, why.message());
  const auto bytes = std::as_bytes(std::span(text));
  say(step, {bytes.begin(), bytes.end()});
}

Store::Bytes RollCall::hear(std::string_view step, Rank peer) {
  Store::Bytes said;
  try {
    said = store_.get(key(step, peer), left());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::timeout) throw;
    throw_timeout(step);
  }
  if (const std::string text = text_of(said); text.starts_with(kRefusal)) {
    throw Error(ErrorCode::mismatch, text.substr(kRefusal.size()), peer.value);
  }
  return said;
}

void RollCall::throw_timeout(std::string_view step) {
  std::vector<int> absent;
  for (int peer = 0; peer < world_size_; ++peer) {
    if (Rank(peer) != rank_ && !store_.check(key(step, Rank(peer)))) absent.push_back(peer);
  }
  if (absent.empty()) {
    throw Error(
        ErrorCode::timeout,
        fmt::format(
            "all {} ranks have come to step {}/{}, but rank {} had no time left to go on after {:.3g} "
            "s (attempt {}): some came too late; raise the timeout",
            world_size_, purpose_, step, rank_.value, static_cast<double>(timeout_.count()) / 1000.0,
            generation_));
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
