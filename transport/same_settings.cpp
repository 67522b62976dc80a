#include "transport/same_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <sstream>
#include <string_view>
#include <vector>

#include "transport/base/error.hpp"
#include "transport/roll_call.hpp"

namespace ucxring {
namespace {

/// The others concern one rank alone: how it waits, where it listens, what it writes.
constexpr std::array<std::string_view, 4> kShared = {"ALGORITHM", "SLICE_BYTES", "TRANSPORT",
                                                     "DETERMINISTIC"};
constexpr std::size_t kTransport = 2;

/// The values of `kShared`, a line each.
std::string shared_values(const Config& config) {
  std::string text;
  for (const std::string_view name : kShared) {
    for (const Setting& setting : settings()) {
      if (setting.name == name) text += setting.show(config) + '\n';
    }
  }
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  lines.resize(kShared.size());
  return lines;
}

std::string shown(const std::string& value) { return value.empty() ? "the default" : value; }

std::string differences(Rank rank, const std::vector<std::string>& ours,
                        const std::vector<std::string>& of_rank_0) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < kShared.size(); ++i) {
    if (ours[i] == of_rank_0[i]) continue;
    found.push_back(fmt::format("rank {} has UCXRING_{}={}, rank 0 has {}", rank.value, kShared[i],
                                shown(ours[i]), shown(of_rank_0[i])));
  }
  return fmt::format("{}", fmt::join(found, "; "));
}

Store::Bytes bytes_of(std::string_view text) {
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

std::string text_of(const Store::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Does what is left of a meeting that has failed for this rank: says so to the ranks that are about to meet
/// over `transport`. This rank has then counted as many roll calls as they have, so that all meet when they
/// try again.
void refuse_meeting(Store& store, Rank rank, int world_size, std::string_view transport, const Status& why) {
  const bool over_ucx = transport == "ucx";
  RollCall first(store, over_ucx ? kUcxRollCall : kShmRollCall, rank, world_size, {});
  first.refuse(over_ucx ? kUcxFirstStep : kShmFirstStep, why);
}

/// What rank 0 has.
std::string hear_rank_0(RollCall& roll_call, Store& store, Rank rank, int world_size, const Config& config) {
  try {
    return text_of(roll_call.hear("values", Rank(0)));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::timeout) {
      refuse_meeting(store, rank, world_size, config.transport, error.status());
    }
    throw;
  }
}

}  // namespace

void require_same_settings(Store& store, Rank rank, int world_size, std::chrono::milliseconds timeout,
                           const Config& config) {
  if (world_size == 1) return;
  RollCall roll_call(store, "settings", rank, world_size, timeout);
  const std::string own = shared_values(config);
  roll_call.say("values", bytes_of(own));
  if (rank == Rank(0)) return;
  const std::string of_rank_0 = hear_rank_0(roll_call, store, rank, world_size, config);
  if (of_rank_0 == own) return;
  const auto ours = lines_of(own);
  const auto theirs = lines_of(of_rank_0);
  const Status why(ErrorCode::mismatch,
                   fmt::format("{}: give all ranks the same value", differences(rank, ours, theirs)), 0);
  refuse_meeting(store, rank, world_size, theirs[kTransport], why);
  why.throw_if_error();
}

}  // namespace ucxring
