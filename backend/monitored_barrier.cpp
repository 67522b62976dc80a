#include "backend/monitored_barrier.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <utility>

#include "backend/errors.hpp"
#include "transport/base/deadline.hpp"
#include "transport/base/error.hpp"

namespace ucxring {
namespace {

/// How long the others wait for the verdict once rank 0 has given up: it says who was missing.
constexpr std::chrono::milliseconds kGrace{1000};
/// What rank 0 says when everybody has come; anything else says who has not.
constexpr const char* kPassed = "passed";

Store::Bytes as_bytes(const std::string& text) {
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

std::string as_text(const Store::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The value of `key`, or nothing when nobody has set it within `limit`.
std::optional<Store::Bytes> find(Store& store, const std::string& key, std::chrono::milliseconds limit) {
  try {
    return store.get(key, limit);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::timeout) throw;
    return std::nullopt;
  }
}

/// Whether `key` is set before `deadline`. Once that has passed, a look is enough: whoever came in time is
/// there.
bool comes(Store& store, const std::string& key, const Deadline& deadline,
           std::chrono::milliseconds timeout) {
  if (deadline.passed()) return store.check(key);
  return find(store, key, deadline.left(timeout)).has_value();
}

/// In the words that torch's own backend has for it.
std::string failure(const std::vector<int>& missing, std::chrono::milliseconds timeout) {
  return fmt::format("{} {} failed to pass monitoredBarrier in {} ms", missing.size() == 1 ? "Rank" : "Ranks",
                     fmt::join(missing, ", "), timeout.count());
}

}  // namespace

MonitoredBarrier::MonitoredBarrier(std::shared_ptr<Store> store, int rank, int world_size)
    : store_(std::move(store)),
      rank_(rank),
      world_size_(world_size),
      generation_(store_->add(fmt::format("monitored_barrier/gen/{}", rank), 1)) {}

void MonitoredBarrier::wait(std::chrono::milliseconds timeout, bool wait_all_ranks) {
  const std::lock_guard lock(mutex_);
  const std::int64_t round = ++rounds_;
  if (rank_ == 0) {
    collect(round, timeout, wait_all_ranks);
  } else {
    report(round, timeout);
  }
}

void MonitoredBarrier::collect(std::int64_t round, std::chrono::milliseconds timeout, bool wait_all_ranks) {
  if (timeout.count() <= 0) {
    throw_backend_error(
        fmt::format("ucxring [timeout] Rank 0 timed out in monitoredBarrier after {} ms", timeout.count()));
  }
  const Deadline deadline = Deadline::after(timeout);
  std::vector<int> missing;
  for (int rank = 1; rank < world_size_ && (missing.empty() || wait_all_ranks); ++rank) {
    if (!comes(*store_, arrival_key(round, rank), deadline, timeout)) missing.push_back(rank);
  }
  const std::string verdict = missing.empty() ? kPassed : failure(missing, timeout);
  store_->set(verdict_key(round), as_bytes(verdict));
  if (!missing.empty()) throw_backend_error("ucxring [timeout] [Rank 0]: " + verdict);
}

void MonitoredBarrier::report(std::int64_t round, std::chrono::milliseconds timeout) {
  store_->set(arrival_key(round, rank_), as_bytes("here"));
  const auto verdict = find(*store_, verdict_key(round), timeout + kGrace);
  if (verdict && as_text(*verdict) == kPassed) return;
  throw_backend_error(fmt::format(
      "ucxring [timeout] Rank {} successfully reached monitoredBarrier, but received errors while waiting "
      "for send/recv from rank 0: {}",
      rank_, verdict ? as_text(*verdict) : "rank 0 has not answered; look there for the reason"));
}

std::string MonitoredBarrier::arrival_key(std::int64_t round, int rank) const {
  return fmt::format("monitored_barrier/{}/{}/{}", generation_, round, rank);
}

std::string MonitoredBarrier::verdict_key(std::int64_t round) const {
  return fmt::format("monitored_barrier/{}/{}/verdict", generation_, round);
}

}  // namespace ucxring
