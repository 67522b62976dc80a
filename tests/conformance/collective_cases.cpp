#include "tests/conformance/collective_cases.hpp"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

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
  return fmt::format("{} {} {} count {} root {}{}{}", to_string(collective), to_string(type), to_string(op),
                     count, root, in_place ? " in place" : "", uneven ? " uneven" : "");
}

std::size_t CollectiveCase::elements(int from, int to) const {
  if (!uneven || count == 0) return count;
  const bool one_for_all = collective == Collective::all_gather || collective == Collective::gather;
  const int key = collective == Collective::all_to_all ? 3 * from + 5 * to : one_for_all ? from : to;
  return key % 4 == 1 ? 0 : count + static_cast<std::size_t>(key % 3);
}

CaseBuffers::CaseBuffers(const CollectiveCase& shape, int rank, int world_size)
    : case_(shape), rank_(rank), world_size_(world_size), memory_(memory()) {
  if (reduces(shape.collective)) {
    fill_reduction();
  } else {
    fill_copies();
  }
  original_input_ = input_;
  output_.assign(expected_.size() + 2 * kGuard, kGuardByte);
  if (memory_ != Memory::apart && has_chunk_per_rank(shape.collective)) {
    for (int before = 0; before < rank; ++before) {
      offset_ += memory_ == Memory::input_in_output ? bytes(before, rank) : bytes(rank, before);
    }
  }
  if (memory_ == Memory::input_in_output && !input_.empty()) {
    std::memcpy(output() + offset_, input_.data(), input_.size());
  }
}

CaseBuffers::Memory CaseBuffers::memory() const {
  const bool is_root = rank_ == case_.root;
  switch (case_.collective) {
    case Collective::broadcast:
      return Memory::input_in_output;
    case Collective::all_reduce:
    case Collective::all_gather:
      return case_.in_place ? Memory::input_in_output : Memory::apart;
    case Collective::reduce:
    case Collective::gather:
      return case_.in_place && is_root ? Memory::input_in_output : Memory::apart;
    case Collective::reduce_scatter:
      return case_.in_place ? Memory::output_in_input : Memory::apart;
    case Collective::scatter:
      return case_.in_place && is_root ? Memory::output_in_input : Memory::apart;
    case Collective::all_to_all:
    case Collective::barrier:
      break;
  }
  return Memory::apart;
}

void CaseBuffers::fill_reduction() {
  std::size_t count = case_.count;
  std::size_t begin = 0;
  std::size_t end = count;
  if (case_.collective == Collective::reduce_scatter) {
    count = 0;
    for (int to = 0; to < world_size_; ++to) {
      if (to == rank_) begin = count;
      count += case_.elements(rank_, to);
      if (to == rank_) end = count;
    }
  }
  input_ = exact_input(case_.op, case_.type, rank_, world_size_, count);
  if (case_.collective == Collective::reduce && rank_ != case_.root) return;
  const Bytes all = exact_result(case_.op, case_.type, world_size_, count);
  const auto at = [&](std::size_t index) {
    return all.begin() + static_cast<std::ptrdiff_t>(index * size_of(case_.type));
  };
  expected_.assign(at(begin), at(end));
}

void CaseBuffers::fill_copies() {
  const bool is_root = rank_ == case_.root;
  const auto append = [](Bytes& whole, const Bytes& part) {
    whole.insert(whole.end(), part.begin(), part.end());
  };
  const bool scatters =
      case_.collective == Collective::all_to_all || (case_.collective == Collective::scatter && is_root);
  const bool gathers = case_.collective == Collective::all_to_all ||
                       case_.collective == Collective::all_gather ||
                       (case_.collective == Collective::gather && is_root);
  const bool gives = scatters || (case_.collective != Collective::scatter);
  const bool takes = gathers || (case_.collective != Collective::gather);
  if (case_.collective == Collective::barrier) return;
  for (int other = 0; other < world_size_; ++other) {
    if (scatters || (gives && other == rank_)) append(input_, part(rank_, other));
    if (gathers || (takes && other == case_.root)) append(expected_, part(other, rank_));
  }
}

std::size_t CaseBuffers::bytes(int from, int to) const {
  return case_.elements(from, to) * size_of(case_.type);
}

/// What rank `from` has for rank `to`, or for all.
Bytes CaseBuffers::part(int from, int to) const {
  const bool for_one = case_.collective == Collective::scatter || case_.collective == Collective::all_to_all;
  return random_bytes(bytes(from, to), from + (for_one ? 17 * to : 0));
}

std::byte* CaseBuffers::output() {
  return memory_ == Memory::output_in_input ? input_.data() + offset_ : output_.data() + kGuard;
}
const std::byte* CaseBuffers::output() const { return const_cast<CaseBuffers*>(this)->output(); }

Operation CaseBuffers::start(Communicator& communicator, bool wait_soon) {
  Buffer target{output(), expected_.size()};
  const bool inside = memory_ == Memory::input_in_output;
  const ConstBuffer source(inside ? output() + offset_ : input_.data(), input_.size());
  // Ranks that get nothing pass what they have, as callers do who work in place; it must not be touched.
  const bool gets_nothing = rank_ != case_.root && case_.collective == Collective::reduce;
  if (gets_nothing && case_.in_place) target = {input_.data(), input_.size()};
  CallOptions call;
  call.factor = 2.0;
  call.wait_soon = wait_soon;
  if (case_.uneven) return start_uneven(communicator, source, target, call);
  switch (case_.collective) {
    case Collective::barrier:
      return communicator.barrier(call);
    case Collective::all_reduce:
      return communicator.all_reduce(source, target, case_.type, case_.op, call);
    case Collective::reduce:
      return communicator.reduce(source, target, case_.type, case_.op, Rank(case_.root), call);
    case Collective::reduce_scatter:
      return communicator.reduce_scatter(source, target, case_.type, case_.op, call);
    case Collective::broadcast:
      return communicator.broadcast(target, case_.type, Rank(case_.root), call);
    case Collective::all_gather:
      return communicator.all_gather(source, target, case_.type, call);
    case Collective::gather:
      return communicator.gather(source, target, case_.type, Rank(case_.root), call);
    case Collective::scatter:
      return communicator.scatter(source, target, case_.type, Rank(case_.root), call);
    case Collective::all_to_all:
      return communicator.all_to_all(source, target, case_.type, call);
  }
  return {};
}

Operation CaseBuffers::start_uneven(Communicator& communicator, ConstBuffer source, Buffer target,
                                    const CallOptions& call) const {
  std::vector<std::size_t> sent;
  std::vector<std::size_t> received;
  for (int other = 0; other < world_size_; ++other) {
    sent.push_back(case_.elements(rank_, other));
    received.push_back(case_.elements(other, rank_));
  }
  switch (case_.collective) {
    case Collective::all_gather:
      return communicator.all_gather(source, target, case_.type, received, call);
    case Collective::reduce_scatter:
      return communicator.reduce_scatter(source, target, case_.type, case_.op, sent, call);
    case Collective::gather:
      return communicator.gather(source, target, case_.type, received, Rank(case_.root), call);
    case Collective::scatter:
      return communicator.scatter(source, target, case_.type, sent, Rank(case_.root), call);
    case Collective::all_to_all:
      return communicator.all_to_all(source, target, case_.type, sent, received, call);
    default:
      throw std::logic_error("this collective has no uneven form");
  }
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
  if (memory_ != Memory::output_in_input && input_ != original_input_)
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
