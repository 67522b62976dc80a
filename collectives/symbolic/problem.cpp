#include "collectives/symbolic/problem.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace ucxring::symbolic {

double Problem::bytes_of(ChunkRef chunk) const noexcept {
  if (chunk.space == Space::none) return 0;
  return chunk.chunks * bytes_of_one();
}

double Problem::bytes_of_one() const noexcept {
  switch (collective) {
    case Collective::all_reduce:
    case Collective::reduce:
      return 1.0 / schedules.front().input_chunks;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::gather:
    case Collective::scatter:
    case Collective::all_to_all:
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
  if (chunk.chunks != 1) return is_bundle(chunk);
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

bool Layout::is_bundle(ChunkRef chunk) const noexcept {
  if (chunk.space != Space::scratch || chunk.chunk < 0 || chunk.chunks < 1) return false;
  const auto end = static_cast<std::int64_t>(chunk.chunk) + chunk.chunks;
  if (end > static_cast<std::int64_t>(schedule_->scratch.size())) return false;
  const auto place = [&](std::int64_t index) {
    return schedule_->scratch[static_cast<std::size_t>(index)].place;
  };
  // Places in a bundle count up from 0, so the last one tells whether all are in one.
  return place(end - 1) - place(chunk.chunk) == chunk.chunks - 1;
}

int Layout::size_class(ChunkRef chunk) const noexcept {
  if (chunk.space == Space::scratch) chunk = schedule_->scratch[static_cast<std::size_t>(chunk.chunk)].like;
  if (chunk.space == Space::none) return -1;
  if (parts_ == Parts::even && has_chunk_per_rank(collective_)) return 0;
  const bool is_input = chunk.space == Space::input;
  switch (collective_) {
    case Collective::all_gather:
    case Collective::gather:
      return is_input ? rank_ : chunk.chunk;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return is_input ? chunk.chunk : rank_;
    case Collective::all_to_all: {
      const int from = is_input ? rank_ : chunk.chunk;
      const int to = is_input ? chunk.chunk : rank_;
      return from * world_size_ + to;
    }
    default:
      return chunk.chunk;
  }
}

ChunkRef Layout::home(ChunkRef chunk) const noexcept {
  if (collective_ == Collective::all_to_all) return chunk;
  if (collective_ == Collective::all_gather || collective_ == Collective::gather) {
    return chunk.space == Space::input && contains(output(rank_)) ? output(rank_) : chunk;
  }
  if (chunk.space != Space::output) return chunk;
  const bool scatters = collective_ == Collective::reduce_scatter || collective_ == Collective::scatter;
  const ChunkRef same = input(scatters ? rank_ : chunk.chunk);
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
