#include "collectives/symbolic/results.hpp"

#include <fmt/format.h>

namespace ucxring::symbolic {
namespace {

class Results {
 public:
  Results(const Problem& problem, const Rehearsal& rehearsal, Expressions& expressions)
      : problem_(problem), rehearsal_(rehearsal), expressions_(expressions) {}

  [[nodiscard]] Status check(int rank) {
    if (problem_.collective == Collective::barrier) return check_heard(rank);
    for (int chunk = 0; chunk < problem_.of(rank).output_chunks; ++chunk) {
      if (const std::string why = defect(rank, chunk); !why.empty()) return complaint(rank, chunk, why);
    }
    return {};
  }

 private:
  [[nodiscard]] Status check_heard(int rank) const {
    const auto unheard = rehearsal_.hearsay().unheard(rank);
    if (!unheard) return {};
    return Status(
        ErrorCode::invalid_argument,
        fmt::format("rank {} leaves the barrier after its last step without having heard of rank {}", rank,
                    *unheard),
        rank);
  }

  [[nodiscard]] std::string defect(int rank, int chunk) {
    const Expressions::Id value = rehearsal_.value(rank, output(chunk));
    if (value == Expressions::kNothing) return "was never written";
    switch (problem_.collective) {
      case Collective::broadcast:
        return not_from(problem_.root.value, value);
      case Collective::all_gather:
      case Collective::gather:
        return not_from(chunk, value);
      case Collective::scatter:
        return not_part(problem_.root.value, rank, value);
      case Collective::all_to_all:
        return not_part(chunk, rank, value);
      default:
        return not_sum(chunk, value);
    }
  }

  [[nodiscard]] std::string not_sum(int chunk, Expressions::Id value) {
    if (std::string defect = expressions_.defect(value); !defect.empty()) return defect;
    if (problem_.world_size() > 1 && !expressions_.is_complete(value)) return "was never marked as complete";
    if (problem_.collective != Collective::all_reduce) return {};
    const Expressions::Id first = rehearsal_.value(0, output(chunk));
    if (value == first) return {};
    return fmt::format("is summed in another order than on rank 0: {} against {}", expressions_.text(value),
                       expressions_.text(first));
  }

  [[nodiscard]] std::string not_from(int rank, Expressions::Id value) const {
    if (value == expressions_.contribution(rank)) return {};
    return fmt::format("holds the contribution of rank {} instead of that of rank {}",
                       expressions_.text(value), rank);
  }

  [[nodiscard]] std::string not_part(int from, int to, Expressions::Id value) {
    if (value == expressions_.part(from, to)) return {};
    return fmt::format("holds the contribution of rank {} instead of that of rank {} for {}",
                       expressions_.text(value), from, to);
  }

  [[nodiscard]] Status complaint(int rank, int chunk, const std::string& why) const {
    const std::string text = fmt::format("output[{}] {}", chunk, why);
    const std::uint32_t writer = rehearsal_.writer(rank, output(chunk));
    if (writer != Rehearsal::kNeverWritten) return problem_.complaint(rank, writer, "in the end, " + text);
    return Status(ErrorCode::invalid_argument, fmt::format("rank {}: in the end, {}", rank, text), rank);
  }

  const Problem& problem_;
  const Rehearsal& rehearsal_;
  Expressions& expressions_;
};

}  // namespace

Status check_results(const Problem& problem, const Rehearsal& rehearsal, Expressions& expressions) {
  Results results(problem, rehearsal, expressions);
  for (int rank = 0; rank < problem.world_size(); ++rank) {
    if (Status status = results.check(rank); !status.ok()) return status;
  }
  return {};
}

}  // namespace ucxring::symbolic
