#include "collectives/symbolic/form.hpp"

#include <fmt/format.h>

#include <initializer_list>
#include <utility>

namespace ucxring::symbolic {
namespace {

/// Bound on the memory of a symbolic run, far above any schedule of use.
constexpr std::size_t kMostCells = std::size_t{1} << 25;

struct ChunkCounts {
  int input = 0;
  int output = 0;
};

ChunkCounts required_chunks(const Problem& problem, int rank) {
  const int p = problem.world_size();
  const bool is_root = rank == problem.root.value;
  switch (problem.collective) {
    case Collective::all_reduce: {
      const int chunks = problem.of(0).input_chunks;
      return {chunks, chunks};
    }
    case Collective::broadcast: {
      const bool may_choose = !is_root && problem.of(rank).input_chunks == 0;
      return {may_choose ? 0 : 1, 1};
    }
    case Collective::reduce: {
      const int chunks = problem.of(0).input_chunks;
      return {chunks, is_root ? chunks : 0};
    }
    case Collective::all_gather:
      return {1, p};
    case Collective::reduce_scatter:
      return {p, 1};
    case Collective::gather:
      return {1, is_root ? p : 0};
    case Collective::scatter:
      return {is_root ? p : 0, 1};
    case Collective::all_to_all:
      return {p, p};
    case Collective::barrier:
      break;
  }
  return {};
}

Status check_chunks(const Problem& problem, int rank) {
  const auto fail = [&](std::string why) {
    return Status(ErrorCode::invalid_argument, fmt::format("rank {}: {}", rank, why), rank);
  };
  const Schedule& schedule = problem.of(rank);
  const ChunkCounts required = required_chunks(problem, rank);
  if (schedule.input_chunks != required.input || schedule.output_chunks != required.output) {
    return fail(fmt::format("has {} input and {} output chunks, {} among {} ranks needs {} and {}",
                            schedule.input_chunks, schedule.output_chunks, to_string(problem.collective),
                            problem.world_size(), required.input, required.output));
  }
  if (schedule.widest != problem.of(0).widest) {
    return fail(fmt::format("has messages of up to {} chunks, rank 0 of up to {}", schedule.widest,
                            problem.of(0).widest));
  }
  const Layout layout(problem, rank);
  for (std::size_t i = 0; i < schedule.scratch.size(); ++i) {
    const auto [like, place] = schedule.scratch[i];
    if (like.space == Space::scratch || like.chunks != 1 || !layout.contains(like)) {
      return fail(fmt::format("scratch[{}] has the size of {}, which does not exist", i, describe(like)));
    }
    if (place != 0 && (i == 0 || schedule.scratch[i - 1] != ScratchChunk{like, place - 1})) {
      return fail(fmt::format("scratch[{}] has place {} in a bundle that does not lead up to it", i, place));
    }
  }
  return {};
}

/// Finds what is wrong with single steps of one rank. Each check returns a complaint, empty when there is
/// none.
class StepForm {
 public:
  StepForm(const Problem& problem, int rank) noexcept
      : layout_(problem, rank),
        collective_(problem.collective),
        rank_(rank),
        world_size_(problem.world_size()),
        widest_(problem.of(rank).widest) {}

  [[nodiscard]] std::string defect(const Step& step) const {
    switch (step.action) {
      case Action::send:
        return first_of({peer(step), source(step, true), width(step.source), no_mark(step)});
      case Action::receive:
        return first_of({peer(step), target(step, true), width(step.target), combination(step), mark(step)});
      case Action::local:
        return first_of({source(step, false), target(step, false), single(step), combination(step),
                         sizes(step), mark(step)});
    }
    return "unknown action";
  }

 private:
  static std::string first_of(std::initializer_list<std::string> complaints) {
    for (const std::string& complaint : complaints) {
      if (!complaint.empty()) return complaint;
    }
    return {};
  }
  [[nodiscard]] std::string chunk(ChunkRef chunk) const {
    return layout_.contains(chunk) ? std::string() : describe(chunk) + " does not exist";
  }
  [[nodiscard]] std::string peer(const Step& step) const {
    if (step.peer < 0 || step.peer >= world_size_) return fmt::format("there is no rank {}", step.peer);
    return step.peer == rank_ ? "a rank has no messages to itself" : "";
  }
  [[nodiscard]] std::string source(const Step& step, bool may_signal) const {
    return may_signal && step.source.space == Space::none ? std::string() : chunk(step.source);
  }
  [[nodiscard]] std::string target(const Step& step, bool may_signal) const {
    if (step.target.space == Space::input) return "the input must not be written";
    return may_signal && step.target.space == Space::none ? std::string() : chunk(step.target);
  }
  [[nodiscard]] std::string width(ChunkRef chunk) const {
    if (chunk.chunks <= widest_) return {};
    return fmt::format("is a message of {} chunks, though none has more than {}", chunk.chunks, widest_);
  }
  [[nodiscard]] static std::string single(const Step& step) {
    return step.source.chunks == 1 && step.target.chunks == 1 ? "" : "works on more than one chunk";
  }
  [[nodiscard]] std::string combination(const Step& step) const {
    if (step.combine == Combine::copy) return {};
    if (step.target.chunks != 1 || step.operand.chunks != 1) return "reduces more than one chunk";
    if (step.combine != Combine::reduce && step.combine != Combine::reduce_before)
      return "unknown combination";
    if (!reduces(collective_)) return fmt::format("{} reduces nothing", to_string(collective_));
    if (step.target.space == Space::none) return "a signal cannot be reduced";
    std::string complaint = chunk(step.operand);
    if (!complaint.empty() || !layout_.contains(step.target)) return complaint;
    return same_size(step.operand, step.target);
  }
  [[nodiscard]] std::string sizes(const Step& step) const {
    if (!layout_.contains(step.source) || !layout_.contains(step.target)) return {};
    return same_size(step.source, step.target);
  }
  [[nodiscard]] std::string same_size(ChunkRef one, ChunkRef other) const {
    if (layout_.size_class(one) == layout_.size_class(other)) return {};
    return fmt::format("{} and {} differ in size", describe(one), describe(other));
  }
  [[nodiscard]] static std::string no_mark(const Step& step) {
    return step.completes ? "is marked as completing, but computes nothing" : "";
  }
  [[nodiscard]] static std::string mark(const Step& step) {
    return step.combine == Combine::copy ? no_mark(step) : std::string();
  }

  Layout layout_;
  Collective collective_;
  int rank_;
  int world_size_;
  int widest_;
};

}  // namespace

Status check_form(const Problem& problem) {
  const auto fail = [](std::string why) { return Status(ErrorCode::invalid_argument, std::move(why)); };
  if (problem.schedules.empty()) return fail("there are no schedules");
  if (static_cast<int>(problem.collective) >= kCollectives) return fail("there is no such collective");
  if (problem.root.value < 0 || problem.root.value >= problem.world_size()) {
    return fail(fmt::format("the root, rank {}, is not in the group", problem.root.value));
  }
  const bool free = problem.collective == Collective::all_reduce || problem.collective == Collective::reduce;
  if (free && problem.of(0).input_chunks < 1) {
    return fail(fmt::format("rank 0 cuts its input into {} chunks", problem.of(0).input_chunks));
  }
  std::size_t cells = 0;
  for (int rank = 0; rank < problem.world_size(); ++rank) {
    if (Status status = check_chunks(problem, rank); !status.ok()) return status;
    cells += Layout(problem, rank).cells();
    if (cells > kMostCells) return fail(fmt::format("more than {} chunks on all ranks together", kMostCells));
  }
  for (int rank = 0; rank < problem.world_size(); ++rank) {
    const StepForm form(problem, rank);
    const std::vector<Step>& steps = problem.of(rank).steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (const std::string why = form.defect(steps[i]); !why.empty()) return problem.complaint(rank, i, why);
    }
  }
  return {};
}

}  // namespace ucxring::symbolic
