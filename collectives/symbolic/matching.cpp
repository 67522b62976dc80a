#include "collectives/symbolic/matching.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <compare>

namespace ucxring::symbolic {
namespace {

/// One end of a message. Sorted, the ends of each ordered pair of ranks stand together, in program order.
struct End {
  int from;
  int to;
  std::uint32_t index;
  friend auto operator<=>(const End&, const End&) = default;
};

std::vector<End> ends(const Problem& problem, Action action) {
  std::vector<End> found;
  for (int rank = 0; rank < problem.world_size(); ++rank) {
    const std::vector<Step>& steps = problem.of(rank).steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].action != action) continue;
      const bool sends = action == Action::send;
      found.push_back(
          {sends ? rank : steps[i].peer, sends ? steps[i].peer : rank, static_cast<std::uint32_t>(i)});
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Orders ends by their pair of ranks alone.
std::weak_ordering by_pair(const End& one, const End& other) {
  if (const auto order = one.from <=> other.from; order != 0) return order;
  return one.to <=> other.to;
}

}  // namespace

Matching::Matching(const Problem& problem, Status& status) {
  first_.push_back(0);
  for (const Schedule& schedule : problem.schedules) first_.push_back(first_.back() + schedule.steps.size());
  partner_.resize(steps());
  const std::vector<End> sends = ends(problem, Action::send);
  const std::vector<End> receives = ends(problem, Action::receive);
  messages_ = sends.size();

  auto send = sends.begin();
  auto receive = receives.begin();
  while (send != sends.end() || receive != receives.end()) {
    if (receive == receives.end() || (send != sends.end() && by_pair(*send, *receive) < 0)) {
      status = problem.complaint(send->from, send->index, fmt::format("rank {} never receives it", send->to));
      return;
    }
    if (send == sends.end() || by_pair(*send, *receive) > 0) {
      status = problem.complaint(receive->to, receive->index,
                                 fmt::format("rank {} never sends it", receive->from));
      return;
    }
    const Step& sending = problem.step(send->from, send->index);
    const Step& receiving = problem.step(receive->to, receive->index);
    if (sending.source.chunks != receiving.target.chunks ||
        Layout(problem, send->from).size_class(sending.source) !=
            Layout(problem, receive->to).size_class(receiving.target)) {
      status = problem.complaint(receive->to, receive->index,
                                 fmt::format("differs in size from what rank {} sends in step {} ({})",
                                             send->from, send->index, describe(sending)));
      return;
    }
    partner_[number(send->from, send->index)] = receive->index;
    partner_[number(receive->to, receive->index)] = send->index;
    ++send;
    ++receive;
  }
}

}  // namespace ucxring::symbolic
