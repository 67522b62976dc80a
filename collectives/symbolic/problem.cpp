#include "collectives/symbolic/problem.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace ucxring::symbolic {

double Problem::bytes_of(ChunkRef chunk) const noexcept {
  if (chunk.space == Space::none) return 0;
  switch (collective) {
    case Collective::all_reduce:
      return 1.0 / schedules.front().input_chunks;
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return 1.0 / world_size();
    default:
      return 1;
  }
}

Status Problem::complaint(int rank, std::size_t index, std::string_view why) const {
  return Status(ErrorCode::invalid_argument,
                fmt::format("rank {}, step {} ({}): {}", rank, index, describe(step(rank, index)), why),
                rank);
}

bool Layout::contains(ChunkRef chunk) const noexcept {
  const auto below = [&](std::int64_t chunks) { return chunk.chunk >= 0 && chunk.chunk < chunks; };
  switch (chunk.space) {
    case Space::input:
      return below(schedule_->input_chunks);
    case Space::output:
      return below(schedule_->output_chunks);
    case Space::scratch:
      return below(static_cast<std::int64_t>(schedule_->scratch.size()));
    default:
      return false;
  }
}

int Layout::size_class(ChunkRef chunk) const noexcept {
  if (chunk.space == Space::scratch) chunk = schedule_->scratch[static_cast<std::size_t>(chunk.chunk)];
  if (chunk.space == Space::none) return -1;
  const bool own = (collective_ == Collective::all_gather && chunk.space == Space::input) ||
                   (collective_ == Collective::reduce_scatter && chunk.space == Space::output);
  return own ? rank_ : chunk.chunk;
}

ChunkRef Layout::home(ChunkRef chunk) const noexcept {
  if (collective_ == Collective::all_gather) return chunk.space == Space::input ? output(rank_) : chunk;
  if (chunk.space != Space::output) return chunk;
  const ChunkRef same = input(collective_ == Collective::reduce_scatter ? rank_ : chunk.chunk);
  return contains(same) ? same : chunk;
}

std::size_t Layout::cell(ChunkRef chunk, bool in_place) const noexcept {
  if (in_place) chunk = home(chunk);
  auto number = static_cast<std::size_t>(chunk.chunk);
  if (chunk.space != Space::input) number += static_cast<std::size_t>(schedule_->input_chunks);
  if (chunk.space == Space::scratch) number += static_cast<std::size_t>(schedule_->output_chunks);
  return number;
}

std::size_t Layout::cells() const noexcept {
  return static_cast<std::size_t>(schedule_->input_chunks) +
         static_cast<std::size_t>(schedule_->output_chunks) + schedule_->scratch.size();
}

}  // namespace ucxring::symbolic
