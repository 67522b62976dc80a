#include "collectives/registry.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "collectives/algorithms/binomial.hpp"
#include "collectives/algorithms/chain.hpp"
#include "collectives/algorithms/direct.hpp"
#include "collectives/algorithms/dissemination.hpp"
#include "collectives/algorithms/recursive_doubling.hpp"
#include "collectives/algorithms/ring.hpp"
#include "collectives/algorithms/tree.hpp"
#include "collectives/preference.hpp"

namespace ucxring {
namespace {

constexpr std::size_t kAnyBytes = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kKiB = 1024;

bool any_size(int world_size) { return world_size >= 2; }

// Rows of a collective are ordered from small operations to large ones: its last row fits everything.
constexpr std::array kAlgorithms{
    Algorithm{Collective::all_reduce,
              "recursive_doubling",
              "partners at distance 1, 2, 4, … exchange sums",
              recursive_doubling_all_reduce,
              any_size,
              {16 * kKiB}},
    Algorithm{Collective::all_reduce,
              "direct",
              "everyone sends everything to everyone",
              direct_all_reduce,
              any_size,
              {4096 * kKiB, 2, 2}},  // two ranks send as much as around a ring, in one round
    Algorithm{Collective::all_reduce,
              "direct_two_shot",
              "direct reduce-scatter, then direct all-gather",
              direct_two_shot_all_reduce,
              any_size,
              {64 * kKiB, 2, 8}},
    Algorithm{Collective::all_reduce,
              "tree",
              "two binary trees, each for one half of the vector",
              tree_all_reduce,
              any_size,
              {1024 * kKiB, 16}},
    Algorithm{Collective::all_reduce,
              "ring",
              "reduce-scatter, then all-gather around a ring",
              ring_all_reduce,
              any_size,
              {kAnyBytes}},
    Algorithm{Collective::broadcast,
              "binomial",
              "the ranks that hold the vector double each round",
              binomial_broadcast,
              any_size,
              {64 * kKiB}},
    Algorithm{Collective::broadcast,
              "chain",
              "a pipeline from each rank to the next",
              chain_broadcast,
              any_size,
              {kAnyBytes}},
    Algorithm{Collective::all_gather,
              "direct",
              "everyone sends to everyone",
              direct_all_gather,
              any_size,
              {64 * kKiB}},
    Algorithm{Collective::all_gather,
              "ring",
              "contributions travel around a ring",
              ring_all_gather,
              any_size,
              {kAnyBytes}},
    Algorithm{Collective::reduce_scatter,
              "direct",
              "everyone sends chunk q to rank q",
              direct_reduce_scatter,
              any_size,
              {64 * kKiB}},
    Algorithm{Collective::reduce_scatter,
              "ring",
              "partial sums travel around a ring",
              ring_reduce_scatter,
              any_size,
              {kAnyBytes}},
    Algorithm{Collective::barrier,
              "dissemination",
              "signals at distance 1, 2, 4, …",
              dissemination_barrier,
              any_size,
              {kAnyBytes}},
};

std::optional<PreferenceClause> clause_for(Collective collective, std::string_view preference) {
  if (preference.empty()) return {};
  for (PreferenceClause& clause : parse_preference(preference)) {
    if (clause.collective == collective) return std::move(clause);
  }
  return {};
}

bool fits(const PreferredRange& range, std::size_t bytes, int world_size) noexcept {
  return range.max_bytes > 0 && bytes <= range.max_bytes && world_size >= range.min_world_size &&
         world_size <= range.max_world_size;
}

}  // namespace

std::span<const Algorithm> algorithms() noexcept { return kAlgorithms; }

const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.collective == collective && algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

const Algorithm& choose_algorithm(Collective collective, std::size_t bytes, int world_size,
                                  std::string_view preference) {
  const auto clause = clause_for(collective, preference);
  const Algorithm* fallback = nullptr;
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.collective != collective || !algorithm.supports(world_size)) continue;
    if (clause && !clause->allows(algorithm.name)) continue;
    if (fits(algorithm.preferred, bytes, world_size)) return algorithm;
    fallback = &algorithm;
  }
  if (fallback != nullptr) return *fallback;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("no algorithm is left for {} among {} ranks; UCXRING_ALGORITHM is \"{}\"",
                          to_string(collective), world_size, preference));
}

void check_preference(std::string_view preference) {
  for (const PreferenceClause& clause : parse_preference(preference)) {
    // A clause may forbid every algorithm only when it could be met by none: find out now, not at the first
    // call.
    (void)choose_algorithm(clause.collective, 0, 2, preference);
  }
}

}  // namespace ucxring
