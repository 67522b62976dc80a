// `validate` must refuse malformed schedules, never crash on them or loop.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/validate.hpp"

namespace {

using namespace ucxring;

/// Deals out the fuzzer's bytes; zeros when they are used up.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  int below(int limit) {
    if (bytes_.empty()) return 0;
    const int value = bytes_.front() % limit;
    bytes_ = bytes_.subspan(1);
    return value;
  }
  /// Mostly a valid index, sometimes one that is out of range.
  int index() { return below(8) - 1; }
  ChunkRef chunk() { return {static_cast<Space>(below(5)), index(), 1 + below(8) / 6}; }

 private:
  std::span<const std::uint8_t> bytes_;
};

Step make_step(Bytes& bytes) {
  Step step;
  step.action = static_cast<Action>(bytes.below(4));
  step.combine = static_cast<Combine>(bytes.below(4));
  step.completes = bytes.below(2) == 1;
  step.peer = bytes.index();
  step.source = bytes.chunk();
  step.operand = bytes.chunk();
  step.target = bytes.chunk();
  return step;
}

Schedule make_schedule(Bytes& bytes) {
  Schedule schedule;
  schedule.input_chunks = bytes.index();
  schedule.output_chunks = bytes.index();
  schedule.scratch.resize(static_cast<std::size_t>(bytes.below(4)));
  for (ScratchChunk& chunk : schedule.scratch) chunk = {bytes.chunk(), bytes.below(4)};
  schedule.widest = 1 + bytes.below(3);
  schedule.steps.resize(static_cast<std::size_t>(bytes.below(16)));
  for (Step& step : schedule.steps) step = make_step(bytes);
  return schedule;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(std::span(data, size));
  const auto collective = static_cast<Collective>(bytes.below(kCollectives));
  const Rank root(bytes.index());
  std::vector<Schedule> schedules(static_cast<std::size_t>(bytes.below(5)));
  for (Schedule& schedule : schedules) schedule = make_schedule(bytes);
  static_cast<void>(validate(schedules, collective, root, bytes.below(2) == 0 ? Parts::uneven : Parts::even));
  return 0;
}
