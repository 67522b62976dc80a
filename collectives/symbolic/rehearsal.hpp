// Symbolic execution of all ranks' schedules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/symbolic/expressions.hpp"
#include "collectives/symbolic/hearsay.hpp"
#include "collectives/symbolic/matching.hpp"
#include "collectives/symbolic/problem.hpp"
#include "collectives/validate.hpp"

namespace ucxring::symbolic {

/// Runs well-formed, matched schedules with rendezvous: a send is complete when its receive runs, and a step
/// that writes memory waits until the sends of that memory are complete. What may run now may also run later,
/// so the order in which ranks are advanced makes no difference, and one run shows every dead-lock there can
/// be.
class Rehearsal {
 public:
  static constexpr std::uint32_t kNeverWritten = 0xffffffff;

  Rehearsal(const Problem& problem, const Matching& matching, Expressions& expressions, bool in_place);

  /// Runs to the end. Fails when a step reads what was never written, combines what must not be combined, or
  /// when ranks wait for each other.
  [[nodiscard]] Status run();

  /// After `run()`: the expression in a chunk, and the index of the step that wrote it last (or
  /// `kNeverWritten`).
  [[nodiscard]] Expressions::Id value(int rank, ChunkRef chunk) const noexcept {
    return cell(rank, chunk).value;
  }
  [[nodiscard]] std::uint32_t writer(int rank, ChunkRef chunk) const noexcept {
    return cell(rank, chunk).writer;
  }
  [[nodiscard]] const Hearsay& hearsay() const noexcept { return hearsay_; }
  [[nodiscard]] ScheduleCost cost() const;

 private:
  /// The memory of one chunk of one rank.
  struct Cell {
    Expressions::Id value = Expressions::kNothing;
    std::uint32_t unfinished_sends = 0;
    std::uint32_t writer = kNeverWritten;
  };
  struct Process {
    std::size_t next = 0;  ///< index of the step to run
    int round = 0;         ///< longest chain of messages this rank has seen the end of
    bool queued = false;
    double sent = 0, received = 0, reduced = 0;
  };
  /// What a blocked rank waits for: that `rank` runs its step `index`.
  struct Obstacle {
    int rank;
    std::size_t index;
  };

  [[nodiscard]] Process& process(int rank) noexcept { return processes_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Process& process(int rank) const noexcept {
    return processes_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::size_t cell_number(int rank, ChunkRef chunk) const noexcept;
  [[nodiscard]] Cell& cell(int rank, ChunkRef chunk) noexcept { return cells_[cell_number(rank, chunk)]; }
  [[nodiscard]] const Cell& cell(int rank, ChunkRef chunk) const noexcept {
    return cells_[cell_number(rank, chunk)];
  }
  [[nodiscard]] bool has_run(Obstacle step) const noexcept { return process(step.rank).next > step.index; }

  void fill_inputs();
  void wake(int rank);
  /// Runs steps of `rank` until one must wait.
  Status advance(int rank);
  [[nodiscard]] std::optional<Obstacle> obstacle(int rank, std::size_t index) const;
  [[nodiscard]] bool may_write(int rank, const Step& step) const;
  [[nodiscard]] bool shares_cell(int rank, ChunkRef one, ChunkRef other) const noexcept;
  [[nodiscard]] bool may_run(int rank, std::size_t index) const;

  // Each runs one step and returns a complaint, empty when there is none.
  std::string send(int rank, std::size_t index);
  std::string receive(int rank, std::size_t index);
  std::string local(int rank, std::size_t index);
  std::string store(int rank, std::size_t index, int part, Expressions::Id incoming);
  std::string check_sum(const Step& step, Expressions::Id sum);
  [[nodiscard]] std::string check_readable(int rank, ChunkRef chunk) const;

  [[nodiscard]] Status deadlock() const;

  const Problem& problem_;
  const Matching& matching_;
  Expressions& expressions_;
  bool in_place_;
  std::vector<std::size_t> first_cell_;
  std::vector<Cell> cells_;
  std::vector<Process> processes_;
  std::vector<int> rounds_;  ///< of messages, by the number of the send
  std::vector<int> runnable_;
  Hearsay hearsay_;
};

}  // namespace ucxring::symbolic
