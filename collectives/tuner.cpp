#include "collectives/tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace ucxring {
namespace {

/// Groups beyond `kWalkedRanks` are only walked through with algorithms of few messages: a millisecond for
/// some ten thousand.
constexpr int kWalkedRanks = 256;
constexpr std::size_t kMostMessages = std::size_t{1} << 17U;
/// Where nothing is predicted, the first algorithm of the registry serves up to this size, the last beyond.
constexpr std::size_t kSmall = std::size_t{64} << 10U;

int size_class(std::size_t bytes) noexcept {
  const int exact = bytes <= 1 ? 0 : static_cast<int>(std::bit_width(bytes - 1));
  return std::min(exact, Tuner::kSizeClasses - 1);
}

/// What the settings allow. A deterministic group takes one algorithm for all sizes, one whose order of
/// combination depends on nothing, and whose cost does not matter, since that may differ from run to run: the
/// one for large operations.
std::vector<const Algorithm*> allowed(Collective collective, const std::vector<PreferenceClause>& preference,
                                      bool deterministic) {
  std::vector<const Algorithm*> rows;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective || !allows(preference, algorithm)) continue;
    if (deterministic && reduces(collective) && !algorithm.fixed_order) continue;
    rows.push_back(&algorithm);
  }
  return rows;
}

[[noreturn]] void refuse_nothing_left(Collective collective, std::string_view where, const Config& config) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("no algorithm is left for {}{}; UCXRING_ALGORITHM is \"{}\"{}",
                          to_string(collective), where, config.algorithm,
                          config.deterministic && reduces(collective)
                              ? " and UCXRING_DETERMINISTIC asks for one with a fixed order of combination"
                              : ""));
}

std::size_t sends_of(const Schedule& schedule) {
  return static_cast<std::size_t>(
      std::count_if(schedule.steps.begin(), schedule.steps.end(),
                    [](const Step& step) { return step.action == Action::send; }));
}

}  // namespace

void check_choice(const Config& config) {
  const auto preference = parse_preference(config.algorithm);
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (allowed(collective, preference, config.deterministic).empty()) {
      refuse_nothing_left(collective, "", config);
    }
  }
}

Tuner::Tuner(std::vector<int> hosts, const Config& config, const CostParameters& parameters)
    : hosts_(std::move(hosts)),
      config_(config),
      parameters_(parameters),
      preference_(parse_preference(config.algorithm)) {
  check_choice(config);
}

const Algorithm& Tuner::choose(Collective collective, std::size_t bytes) {
  auto& chosen = chosen_[static_cast<std::size_t>(collective)][static_cast<std::size_t>(size_class(bytes))];
  if (chosen == nullptr) chosen = candidates(collective, bytes).front().algorithm;
  return *chosen;
}

const Algorithm& Tuner::choose_uneven(Collective collective, std::optional<std::size_t> bytes) {
  if (!bytes) return *suitable_uneven(collective).back();
  auto& chosen =
      chosen_uneven_[static_cast<std::size_t>(collective)][static_cast<std::size_t>(size_class(*bytes))];
  if (chosen == nullptr) chosen = ranked(suitable_uneven(collective), *bytes).front().algorithm;
  return *chosen;
}

std::vector<Tuner::Candidate> Tuner::candidates(Collective collective, std::size_t bytes) const {
  return ranked(suitable(collective), bytes);
}

/// `rows`, best first.
std::vector<Tuner::Candidate> Tuner::ranked(const std::vector<const Algorithm*>& rows,
                                            std::size_t bytes) const {
  const std::size_t assumed = std::size_t{1} << static_cast<unsigned>(size_class(bytes));
  std::vector<Candidate> result;
  result.reserve(rows.size());
  for (const Algorithm* algorithm : rows) {
    result.push_back({algorithm, rows.size() > 1 ? cost_of(*algorithm, assumed) : std::nullopt});
  }
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.cost && (!b.cost || *a.cost < *b.cost);
  };
  std::stable_sort(result.begin(), result.end(), better);  // equals stay in the order of the registry
  const bool blind = !result.front().cost;
  if (blind && assumed > kSmall) std::reverse(result.begin(), result.end());
  return result;
}

/// The rows that settings and group leave to choose from.
std::vector<const Algorithm*> Tuner::suitable(Collective collective) const {
  auto rows = allowed(collective, preference_, config_.deterministic);
  std::erase_if(rows, [&](const Algorithm* row) {
    return !row->supports({.rank = Rank(0), .world_size = world_size(), .hosts = hosts_});
  });
  if (rows.empty()) {
    refuse_nothing_left(collective, fmt::format(" among {} ranks", world_size()), config_);
  }
  if (config_.deterministic && reduces(collective)) return {rows.back()};
  return rows;
}

/// Those of them that move chunks of different sizes.
std::vector<const Algorithm*> Tuner::suitable_uneven(Collective collective) const {
  auto rows = suitable(collective);
  std::erase_if(rows, [](const Algorithm* row) { return !row->uneven; });
  if (rows.empty()) refuse_nothing_left(collective, " with uneven counts", config_);
  return rows;
}

std::optional<Cost> Tuner::cost_of(const Algorithm& algorithm, std::size_t bytes) const {
  GroupShape shape{.rank = Rank(0), .world_size = world_size(), .hosts = hosts_};
  std::vector<Schedule> schedules{algorithm.build(shape)};
  const auto ranks = hosts_.size();
  if (world_size() > kWalkedRanks && sends_of(schedules.front()) * ranks > kMostMessages) return {};
  schedules.reserve(ranks);
  for (int rank = 1; rank < world_size(); ++rank) {
    shape.rank = Rank(rank);
    schedules.push_back(algorithm.build(shape));
  }
  return predict({.schedules = schedules, .hosts = hosts_, .bytes = bytes, .config = config_}, parameters_);
}

}  // namespace ucxring
