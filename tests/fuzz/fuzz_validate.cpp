// `validate` must survive schedules that are nearly right: those of a real algorithm with a few fields
// changed. They pass the first checks and reach the symbolic run.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "collectives/registry.hpp"
#include "collectives/validate.hpp"

namespace {

using namespace ucxring;

/// Deals out the fuzzer's bytes; zeros when they are used up.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  std::size_t below(std::size_t limit) {
    if (bytes_.empty() || limit == 0) return 0;
    const std::size_t value = bytes_.front() % limit;
    bytes_ = bytes_.subspan(1);
    return value;
  }
  int small() { return static_cast<int>(below(12)) - 2; }

 private:
  std::span<const std::uint8_t> bytes_;
};

void change_chunk(ChunkRef& chunk, Bytes& bytes) {
  chunk = {static_cast<Space>(bytes.below(5)), bytes.small()};
}

void change_step(Step& step, Bytes& bytes) {
  switch (bytes.below(7)) {
    case 0:
      step.action = static_cast<Action>(bytes.below(4));
      break;
    case 1:
      step.combine = static_cast<Combine>(bytes.below(4));
      break;
    case 2:
      step.completes = !step.completes;
      break;
    case 3:
      step.peer = bytes.small();
      break;
    case 4:
      change_chunk(step.source, bytes);
      break;
    case 5:
      change_chunk(step.operand, bytes);
      break;
    default:
      change_chunk(step.target, bytes);
  }
}

void change(Schedule& schedule, Bytes& bytes) {
  std::vector<Step>& steps = schedule.steps;
  const std::size_t kind = bytes.below(8);
  if (kind == 0) schedule.input_chunks = bytes.small();
  if (kind == 1) schedule.output_chunks = bytes.small();
  if (kind == 2) change_chunk(schedule.scratch.emplace_back().like, bytes);
  if (steps.empty() || kind < 3) return;
  const std::size_t one = bytes.below(steps.size());
  const std::size_t other = bytes.below(steps.size());
  if (kind == 3) std::swap(steps[one], steps[other]);
  if (kind == 4) steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(one));
  if (kind == 5) steps.push_back(Step(steps[one]));
  if (kind > 5) change_step(steps[one], bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(std::span(data, size));
  const Algorithm& algorithm = algorithms()[bytes.below(algorithms().size())];
  const int world_size = static_cast<int>(bytes.below(7)) + 2;
  const Rank root(static_cast<int>(bytes.below(static_cast<std::size_t>(world_size))));
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < world_size; ++rank) {
    schedules.push_back(algorithm.build({.rank = Rank(rank), .world_size = world_size, .root = root}));
  }
  // What a builder makes is right; whatever the changes make of it gets an answer.
  const Parts parts = algorithm.uneven ? Parts::uneven : Parts::even;
  if (bytes.empty() && !validate(schedules, algorithm.collective, root, parts).status.ok()) std::abort();
  while (!bytes.empty()) change(schedules[bytes.below(schedules.size())], bytes);
  static_cast<void>(validate(schedules, algorithm.collective, root, parts));
  return 0;
}
