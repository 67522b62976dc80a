// Draws an algorithm as a mermaid sequence diagram, from its schedules. Without arguments, lists all
// algorithms.
//   ucxring_draw_schedule all_reduce ring 3
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/registry.hpp"
#include "collectives/symbolic/matching.hpp"

namespace {

using namespace ucxring;

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

void draw(const Algorithm& algorithm, int world_size) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < world_size; ++rank)
    schedules.push_back(algorithm.build({Rank(rank), world_size, Rank(0)}));
  const symbolic::Problem problem{schedules, algorithm.collective, Rank(0)};
  Status status;
  const symbolic::Matching matching(problem, status);
  status.throw_if_error();

  fmt::print("sequenceDiagram\n");
  for (int rank = 0; rank < world_size; ++rank) fmt::print("  participant r{} as rank {}\n", rank, rank);
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
  int world_size = 0;
  if (arguments.size() == 3) {
    std::from_chars(arguments[2].data(), arguments[2].data() + arguments[2].size(), world_size);
  }
  for (const Algorithm& algorithm : algorithms()) {
    if (world_size < 2 || world_size > 64 || !algorithm.supports(world_size)) continue;
    if (to_string(algorithm.collective) != arguments[0] || algorithm.name != arguments[1]) continue;
    draw(algorithm, world_size);
    return 0;
  }
  fmt::print(stderr, "usage: {} [COLLECTIVE ALGORITHM RANKS]   (2 to 64 ranks; without arguments: list)\n",
             argv[0]);
  return 2;
}
