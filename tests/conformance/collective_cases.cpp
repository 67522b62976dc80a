#include "tests/conformance/collective_cases.hpp"

#include <fmt/format.h>

#include <cstring>

namespace ucxring::testing {

namespace {

constexpr std::size_t kGuard = 64;
constexpr std::byte kGuardByte{0xA5};

Bytes random_bytes(std::size_t bytes, int seed) {
  Bytes data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<std::byte>((i * 131 + static_cast<std::size_t>(seed) * 29 + 7) & 0xFFU);
  }
  return data;
}

}  // namespace

std::string CollectiveCase::describe() const {
  return fmt::format("{} {} {} count {} root {}{}", to_string(collective), to_string(type), to_string(op),
                     count, root, in_place ? " in place" : "");
}

CaseBuffers::CaseBuffers(const CollectiveCase& shape, int rank, int world_size) : case_(shape), rank_(rank) {
  const std::size_t bytes = shape.count * size_of(shape.type);
  const auto ranks = static_cast<std::size_t>(world_size);
  const auto me = static_cast<std::size_t>(rank);
  switch (shape.collective) {
    case Collective::barrier:
      break;
    case Collective::all_reduce:
      input_ = exact_input(shape.op, shape.type, rank, world_size, shape.count);
      expected_ = exact_result(shape.op, shape.type, world_size, shape.count);
      break;
    case Collective::reduce_scatter: {
      input_ = exact_input(shape.op, shape.type, rank, world_size, shape.count * ranks);
      const Bytes all = exact_result(shape.op, shape.type, world_size, shape.count * ranks);
      expected_.assign(all.begin() + static_cast<std::ptrdiff_t>(me * bytes),
                       all.begin() + static_cast<std::ptrdiff_t>((me + 1) * bytes));
      break;
    }
    case Collective::broadcast:
      input_ = random_bytes(bytes, rank);
      expected_ = random_bytes(bytes, shape.root);
      case_.in_place = true;
      break;
    case Collective::all_gather:
      input_ = random_bytes(bytes, rank);
      for (int r = 0; r < world_size; ++r) {
        const Bytes part = random_bytes(bytes, r);
        expected_.insert(expected_.end(), part.begin(), part.end());
      }
      break;
  }
  original_input_ = input_;
  output_.assign(expected_.size() + 2 * kGuard, kGuardByte);
  if (!case_.in_place) return;
  if (shape.collective == Collective::reduce_scatter) {
    input_offset_ = me * bytes;
  } else if (!input_.empty()) {
    input_offset_ = shape.collective == Collective::all_gather ? me * bytes : 0;
    std::memcpy(output() + input_offset_, input_.data(), input_.size());
  }
}

std::byte* CaseBuffers::output() {
  return case_.in_place && case_.collective == Collective::reduce_scatter ? input_.data() + input_offset_
                                                                          : output_.data() + kGuard;
}
const std::byte* CaseBuffers::output() const { return const_cast<CaseBuffers*>(this)->output(); }

Operation CaseBuffers::start(Communicator& communicator) {
  const Buffer target{output(), expected_.size()};
  const bool inside = case_.in_place && case_.collective != Collective::reduce_scatter;
  const ConstBuffer source(inside ? output() + input_offset_ : input_.data(), input_.size());
  CallOptions call;
  call.factor = 2.0;
  switch (case_.collective) {
    case Collective::barrier:
      return communicator.barrier(call);
    case Collective::all_reduce:
      return communicator.all_reduce(source, target, case_.type, case_.op, call);
    case Collective::reduce_scatter:
      return communicator.reduce_scatter(source, target, case_.type, case_.op, call);
    case Collective::broadcast:
      return communicator.broadcast(target, case_.type, Rank(case_.root), call);
    case Collective::all_gather:
      return communicator.all_gather(source, target, case_.type, call);
  }
  return {};
}

std::string CaseBuffers::check() const {
  const std::byte* result = output();
  for (std::size_t i = 0; i < expected_.size(); ++i) {
    if (result[i] == expected_[i]) continue;
    return fmt::format("rank {}: byte {} of {} is {:#x}, not {:#x}", rank_, i, expected_.size(),
                       static_cast<int>(result[i]), static_cast<int>(expected_[i]));
  }
  for (std::size_t i = 0; i < kGuard; ++i) {
    if (output_[i] != kGuardByte || output_[output_.size() - 1 - i] != kGuardByte) {
      return fmt::format("rank {}: a byte outside the output was written", rank_);
    }
  }
  if (!case_.in_place && input_ != original_input_)
    return fmt::format("rank {}: the input was modified", rank_);
  return {};
}

std::vector<std::size_t> edge_counts(int world_size, std::size_t slice_bytes) {
  const auto n = static_cast<std::size_t>(world_size);
  return {0, 1, n - 1, n, n + 1, 37, n * slice_bytes / 2 + 13};
}

std::string only(const Algorithm& algorithm) {
  return fmt::format("{}:{}", to_string(algorithm.collective), algorithm.name);
}

}  // namespace ucxring::testing
