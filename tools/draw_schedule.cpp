// Draws an algorithm as a mermaid sequence diagram, from its schedules. Without arguments, lists all
// algorithms.
//   ucxring_draw_schedule all_reduce ring 3
//   ucxring_draw_schedule all_reduce hierarchical 0,0,1,1    (the host of each rank)
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/registry.hpp"
#include "collectives/symbolic/matching.hpp"

namespace {

using namespace ucxring;

constexpr int kMostRanks = 64;

/// A message of a diagram.
struct Arrow {
  int round;
  int from;
  int to;
  std::string label;
};

std::string label_of(const Step& sending, const Step& receiving) {
  std::string label = describe(sending.source);
  if (receiving.combine != Combine::copy) label += receiving.completes ? ", added: complete" : ", added";
  return label;
}

/// All messages by round: a message belongs to the round after the latest one that its sender has received
/// before.
std::vector<Arrow> arrows_of(const symbolic::Problem& problem, const symbolic::Matching& matching) {
  std::vector<Arrow> arrows;
  std::vector<int> round_of(matching.steps(), 0);
  std::vector<std::size_t> next(problem.schedules.size(), 0);
  std::vector<int> clock(problem.schedules.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < problem.world_size(); ++rank) {
      const auto self = static_cast<std::size_t>(rank);
      for (; next[self] < problem.of(rank).steps.size(); ++next[self], moved = true) {
        const std::size_t index = next[self];
        const Step& step = problem.step(rank, index);
        if (step.action == Action::local) continue;
        const std::size_t partner = matching.partner(rank, index);
        if (step.action == Action::receive) {
          const int round = round_of[matching.number(step.peer, partner)];
          if (round == 0) break;
          clock[self] = std::max(clock[self], round);
          continue;
        }
        const int round = clock[self] + 1;
        round_of[matching.number(rank, index)] = round;
        arrows.push_back({round, rank, step.peer, label_of(step, problem.step(step.peer, partner))});
      }
    }
  }
  std::stable_sort(arrows.begin(), arrows.end(),
                   [](const Arrow& one, const Arrow& other) { return one.round < other.round; });
  return arrows;
}

/// The hosts that "4" (four ranks, each on its own) or "0,0,1,1" (by any names) stands for; empty for
/// neither.
std::vector<int> parse_hosts(std::string_view text) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  std::vector<int> hosts;
  if (error == std::errc() && end == text.data() + text.size()) {
    for (int rank = 0; rank < std::min(count, kMostRanks + 1); ++rank) hosts.push_back(rank);
    return hosts;
  }
  std::map<std::string_view, int> numbers;
  while (!text.empty()) {
    const std::string_view name = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), name.size() + 1));
    hosts.push_back(numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second);
  }
  return hosts;
}

void draw(const Algorithm& algorithm, const GroupShape& shape) {
  const int world_size = shape.world_size;
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < world_size; ++rank)
    schedules.push_back(algorithm.build({Rank(rank), world_size, Rank(0), shape.hosts}));
  const symbolic::Problem problem{schedules, algorithm.collective, Rank(0),
                                  algorithm.uneven ? Parts::uneven : Parts::even};
  Status status;
  const symbolic::Matching matching(problem, status);
  status.throw_if_error();

  fmt::print("sequenceDiagram\n");
  const bool flat = shape.host_count() == world_size;
  for (int rank = 0; rank < world_size; ++rank) {
    const std::string host = flat ? "" : fmt::format(", host {}", shape.host_of(Rank(rank)));
    fmt::print("  participant r{} as rank {}{}\n", rank, rank, host);
  }
  int round = 0;
  for (const Arrow& arrow : arrows_of(problem, matching)) {
    if (arrow.round != round)
      fmt::print("  Note over r0,r{}: round {}\n", world_size - 1, round = arrow.round);
    fmt::print("  r{}->>r{}: {}\n", arrow.from, arrow.to, arrow.label);
  }
}

void list() {
  for (const Algorithm& algorithm : algorithms()) {
    fmt::print("{} {}: {}\n", to_string(algorithm.collective), algorithm.name, algorithm.summary);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    list();
    return 0;
  }
  const auto hosts = parse_hosts(arguments.size() == 3 ? arguments[2] : "");
  const GroupShape shape{Rank(0), static_cast<int>(hosts.size()), Rank(0), hosts};
  for (const Algorithm& algorithm : algorithms()) {
    if (shape.world_size < 2 || shape.world_size > kMostRanks || !algorithm.supports(shape)) continue;
    if (to_string(algorithm.collective) != arguments[0] || algorithm.name != arguments[1]) continue;
    draw(algorithm, shape);
    return 0;
  }
  fmt::print(stderr,
             "usage: {} [COLLECTIVE ALGORITHM RANKS]   (2 to 64 ranks, or the host of each: 0,0,1,1; without "
             "arguments: list)\n",
             argv[0]);
  return 2;
}
