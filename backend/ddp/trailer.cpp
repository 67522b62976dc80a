#include "backend/ddp/trailer.hpp"

#include <cmath>

namespace ucxring::ddp {

void Trailer::write(bool missing, const RankNote& note, int rank, double share) {
  if (!notes_) {
    numbers_.fill_(missing ? share : 0.0);
    return;
  }
  at::Tensor own_numbers = at::zeros({numbers_.numel()}, at::kDouble);
  auto* const number = own_numbers.data_ptr<double>();
  number[0] = missing ? share : 0.0;
  double* const own = number + 1 + kNumbersPerNote * static_cast<std::size_t>(rank);
  own[0] = note.seconds * share;
  own[1] = static_cast<double>(note.batch_hash) * share;
  own[2] = static_cast<double>(note.parameter_hash) * share;
  numbers_.copy_(own_numbers);
}

int Trailer::missing_ranks(int world_size) const {
  return static_cast<int>(std::ceil(numbers_.select(0, 0).item<double>() * world_size - 0.01));
}

std::vector<RankNote> Trailer::notes(int world_size) const {
  if (!notes_) return {};
  const at::Tensor numbers = numbers_.to(at::kCPU, at::kDouble);
  const auto* number = numbers.data_ptr<double>() + 1;
  std::vector<RankNote> notes(static_cast<std::size_t>(world_size));
  for (RankNote& note : notes) {
    note.seconds = number[0] * world_size;
    // A sum of one number and zeros, divided by the world size: rounded twice at most, and whole before that.
    note.batch_hash = static_cast<std::uint32_t>(std::lround(number[1] * world_size));
    note.parameter_hash = static_cast<std::uint32_t>(std::lround(number[2] * world_size));
    number += kNumbersPerNote;
  }
  return notes;
}

}  // namespace ucxring::ddp
