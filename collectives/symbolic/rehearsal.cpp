#include "collectives/symbolic/rehearsal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ucxring::symbolic {

Rehearsal::Rehearsal(const Problem& problem, const Matching& matching, Expressions& expressions,
                     bool in_place)
    : problem_(problem),
      matching_(matching),
      expressions_(expressions),
      in_place_(in_place),
      processes_(problem.schedules.size()),
      rounds_(matching.steps()),
      hearsay_(problem.collective == Collective::barrier ? problem.world_size() : 0) {
  first_cell_.push_back(0);
  for (int rank = 0; rank < problem.world_size(); ++rank) {
    first_cell_.push_back(first_cell_.back() + Layout(problem, rank).cells());
  }
  cells_.resize(first_cell_.back());
  fill_inputs();
}

void Rehearsal::fill_inputs() {
  for (int rank = 0; rank < problem_.world_size(); ++rank) {
    if (problem_.collective == Collective::broadcast && rank != problem_.root.value) continue;
    for (int chunk = 0; chunk < problem_.of(rank).input_chunks; ++chunk) {
      const bool for_one =
          problem_.collective == Collective::scatter || problem_.collective == Collective::all_to_all;
      cell(rank, input(chunk)).value =
          for_one ? expressions_.part(rank, chunk) : expressions_.contribution(rank);
    }
  }
}

std::size_t Rehearsal::cell_number(int rank, ChunkRef chunk) const noexcept {
  return first_cell_[static_cast<std::size_t>(rank)] + Layout(problem_, rank).cell(chunk, in_place_);
}

void Rehearsal::wake(int rank) {
  if (std::exchange(process(rank).queued, true)) return;
  runnable_.push_back(rank);
}

Status Rehearsal::run() {
  for (int rank = 0; rank < problem_.world_size(); ++rank) wake(rank);
  while (!runnable_.empty()) {
    const int rank = runnable_.back();
    runnable_.pop_back();
    process(rank).queued = false;
    if (Status status = advance(rank); !status.ok()) return status;
  }
  for (int rank = 0; rank < problem_.world_size(); ++rank) {
    if (process(rank).next < problem_.of(rank).steps.size()) return deadlock();
  }
  return {};
}

Status Rehearsal::advance(int rank) {
  Process& self = process(rank);
  const std::vector<Step>& steps = problem_.of(rank).steps;
  while (self.next < steps.size() && may_run(rank, self.next)) {
    const std::size_t index = self.next++;
    std::string complaint;
    switch (steps[index].action) {
      case Action::send:
        complaint = send(rank, index);
        break;
      case Action::receive:
        complaint = receive(rank, index);
        break;
      case Action::local:
        complaint = local(rank, index);
        break;
    }
    if (!complaint.empty()) {
      return problem_.complaint(rank, index, complaint + (in_place_ ? ", in place" : ""));
    }
  }
  return {};
}

bool Rehearsal::may_write(int rank, const Step& step) const {
  if (step.target.space == Space::none) return true;
  for (int i = 0; i < step.target.chunks; ++i) {
    if (cell(rank, step.target.part(i)).unfinished_sends != 0) return false;
  }
  return true;
}

bool Rehearsal::may_run(int rank, std::size_t index) const {
  const Step& step = problem_.step(rank, index);
  if (step.action == Action::send) return true;
  if (!may_write(rank, step)) return false;
  return step.action == Action::local || has_run({step.peer, matching_.partner(rank, index)});
}

std::string Rehearsal::send(int rank, std::size_t index) {
  const Step& step = problem_.step(rank, index);
  Process& self = process(rank);
  rounds_[matching_.number(rank, index)] = self.round + 1;
  if (step.source.space != Space::none) {
    for (int i = 0; i < step.source.chunks; ++i) {
      if (std::string why = check_readable(rank, step.source.part(i)); !why.empty()) return why;
      ++cell(rank, step.source.part(i)).unfinished_sends;
    }
    self.sent += problem_.bytes_of(step.source);
  }
  if (problem_.collective == Collective::barrier) hearsay_.send(rank, matching_.number(rank, index));
  wake(step.peer);
  return {};
}

std::string Rehearsal::receive(int rank, std::size_t index) {
  const Step& step = problem_.step(rank, index);
  Process& self = process(rank);
  const std::size_t sent_at = matching_.partner(rank, index);
  const std::size_t number = matching_.number(step.peer, sent_at);
  self.round = std::max(self.round, rounds_[number]);
  if (problem_.collective == Collective::barrier) hearsay_.receive(rank, number);
  if (step.target.space == Space::none) return {};
  self.received += problem_.bytes_of(step.target);
  wake(step.peer);
  for (int i = 0; i < step.target.chunks; ++i) {
    // The sender has not overwritten it, for that waits for this step.
    Cell& sent = cell(step.peer, problem_.step(step.peer, sent_at).source.part(i));
    --sent.unfinished_sends;
    if (std::string why = store(rank, index, i, sent.value); !why.empty()) return why;
  }
  return {};
}

std::string Rehearsal::local(int rank, std::size_t index) {
  const ChunkRef source = problem_.step(rank, index).source;
  if (std::string why = check_readable(rank, source); !why.empty()) return why;
  return store(rank, index, 0, cell(rank, source).value);
}

std::string Rehearsal::store(int rank, std::size_t index, int part, Expressions::Id incoming) {
  const Step& step = problem_.step(rank, index);
  Expressions::Id value = incoming;
  if (step.combine != Combine::copy) {
    if (std::string why = check_readable(rank, step.operand); !why.empty()) return why;
    const Expressions::Id operand = cell(rank, step.operand).value;
    if (expressions_.is_complete(operand) || expressions_.is_complete(incoming)) {
      return "adds to a sum that was marked as complete";
    }
    value = step.combine == Combine::reduce ? expressions_.combine(operand, incoming)
                                            : expressions_.combine(incoming, operand);
    if (std::string why = check_sum(step, value); !why.empty()) return why;
    if (step.completes) value = expressions_.complete(value);
    process(rank).reduced += problem_.bytes_of(step.target);
  }
  Cell& target = cell(rank, step.target.part(part));
  target.value = value;
  target.writer = static_cast<std::uint32_t>(index);
  return {};
}

std::string Rehearsal::check_sum(const Step& step, Expressions::Id sum) {
  const auto all = static_cast<std::uint32_t>(problem_.world_size());
  if (expressions_.size(sum) >= all || step.completes) {
    if (std::string defect = expressions_.defect(sum); !defect.empty()) return "its result " + defect;
  }
  if (expressions_.size(sum) == all && !step.completes) {
    return "its result holds every contribution, but the step is not marked as completing";
  }
  return {};
}

std::string Rehearsal::check_readable(int rank, ChunkRef chunk) const {
  if (cell(rank, chunk).value != Expressions::kNothing) return {};
  return fmt::format("reads {} before anything is written there", describe(chunk));
}

bool Rehearsal::shares_cell(int rank, ChunkRef one, ChunkRef other) const noexcept {
  for (int i = 0; i < one.chunks; ++i) {
    for (int j = 0; j < other.chunks; ++j) {
      if (cell_number(rank, one.part(i)) == cell_number(rank, other.part(j))) return true;
    }
  }
  return false;
}

std::optional<Rehearsal::Obstacle> Rehearsal::obstacle(int rank, std::size_t index) const {
  const Step& step = problem_.step(rank, index);
  if (!may_write(rank, step)) {
    for (std::size_t i = 0; i < index; ++i) {
      const Step& earlier = problem_.step(rank, i);
      if (earlier.action != Action::send || earlier.source.space == Space::none) continue;
      const Obstacle taken{earlier.peer, matching_.partner(rank, i)};
      if (shares_cell(rank, earlier.source, step.target) && !has_run(taken)) return taken;
    }
  }
  if (step.action != Action::receive) return {};
  return Obstacle{step.peer, matching_.partner(rank, index)};
}

Status Rehearsal::deadlock() const {
  constexpr std::size_t kMostLines = 8;
  std::vector<bool> visited(processes_.size(), false);
  int rank = 0;
  while (process(rank).next >= problem_.of(rank).steps.size()) ++rank;
  const int first = rank;
  const std::size_t first_step = process(rank).next;
  std::string text = in_place_ ? "dead-lock in place" : "dead-lock";
  for (std::size_t line = 0; line < kMostLines && !visited[static_cast<std::size_t>(rank)]; ++line) {
    visited[static_cast<std::size_t>(rank)] = true;
    const std::size_t index = process(rank).next;
    const auto awaited = obstacle(rank, index);
    if (!awaited) break;
    text += fmt::format("; rank {} waits at step {} ({}) for rank {} to reach its step {} ({})", rank, index,
                        describe(problem_.step(rank, index)), awaited->rank, awaited->index,
                        describe(problem_.step(awaited->rank, awaited->index)));
    rank = awaited->rank;
  }
  return problem_.complaint(first, first_step, text);
}

ScheduleCost Rehearsal::cost() const {
  ScheduleCost cost;
  for (const Process& each : processes_) {
    cost.rounds = std::max(cost.rounds, each.round);
    cost.bytes_sent = std::max(cost.bytes_sent, each.sent);
    cost.bytes_received = std::max(cost.bytes_received, each.received);
    cost.bytes_reduced = std::max(cost.bytes_reduced, each.reduced);
  }
  cost.messages = matching_.messages();
  return cost;
}

}  // namespace ucxring::symbolic
