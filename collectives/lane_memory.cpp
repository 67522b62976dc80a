#include "collectives/lane_memory.hpp"

#include <cstring>

namespace ucxring {

void LaneMemory::copy(Buffer target, const void* source) const noexcept {
  if (plan->streams) {
    streaming_copy(target.data, source, target.bytes);
  } else {
    std::memcpy(target.data, source, target.bytes);
  }
}

void LaneMemory::run_local(const Step& step) const {
  const Buffer target = slice(step.target);
  const Buffer source = slice(step.source);
  if (target.bytes == 0) return;
  if (step.combine == Combine::copy) {
    if (target.data != source.data) copy(target, source.data);
    return;
  }
  const Buffer operand = slice(step.operand);
  const bool before = step.combine == Combine::reduce_before;
  plan->reduction.combine(target.data, before ? source.data : operand.data,
                          before ? operand.data : source.data, target.bytes >> plan->element_shift);
}

void LaneMemory::divide(ChunkRef ref) const {
  if (plan->reduction.divide == nullptr) return;
  const Buffer target = slice(ref);
  plan->reduction.divide(target.data, target.data, plan->divisor, target.bytes >> plan->element_shift);
}

void LaneMemory::fold(const Move& fold, const void* const* sources, std::byte* second) const {
  const Buffer target = slice(fold.target);
  if (target.bytes == 0) return;
  if (fold.operands.count == 1) {
    copy(target, sources[0]);
    if (second != nullptr) std::memcpy(second, sources[0], target.bytes);
    return;
  }
  const bool average = fold.completes && plan->reduction.divide != nullptr;
  plan->reduction.fold(target.data, second, sources, static_cast<int>(fold.operands.count),
                       average ? plan->divisor : 1.0, target.bytes >> plan->element_shift);
}

}  // namespace ucxring
