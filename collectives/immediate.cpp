#include "collectives/immediate.hpp"

#include <sched.h>

#include <array>

namespace ucxring {
namespace {

/// Looks without a pause, for a peer that is as fast as this rank.
constexpr int kEagerLooks = 4;

/// Most times a core is given away for one message.
constexpr int kYields = 64;

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Progress ImmediateRun::run(const OperationBuffers& buffers) const {
  const LaneMemory memory{&plan, buffers, nullptr, 0};
  Progress progress;
  for (; progress.moves < plan.moves.list.size(); ++progress.moves) {
    const Outcome outcome = run_move(memory, plan.moves.list[progress.moves]);
    if (outcome == Outcome::done) continue;
    progress.folded = outcome == Outcome::folded;
    break;
  }
  return progress;
}

ImmediateRun::Outcome ImmediateRun::run_move(const LaneMemory& memory, const Move& move) const {
  if (move.kind == Move::Kind::fold) return run_fold(memory, move);
  if (move.kind == Move::Kind::publish) {
    const bool sent =
        shared.publish(memory.slice(move.source), plan.moves.recipients_of(move), tag(0), plan.stamp);
    return sent ? Outcome::done : Outcome::waits;
  }
  memory.run_local(plan.schedule.steps[move.step]);
  if (move.completes) memory.divide(move.target);
  return Outcome::done;
}

ImmediateRun::Outcome ImmediateRun::run_fold(const LaneMemory& memory, const Move& move) const {
  const Buffer target = memory.slice(move.target);
  const auto operands = plan.moves.operands_of(move);
  std::array<const void*, kMostOperands> sources;
  sources.front() = nullptr;  // no chain is empty, which the compiler does not know
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].peer < 0) {
      sources[i] = memory.slice(operands[i].chunk).data;
      continue;
    }
    sources[i] = look_for(operands[i].peer, tag(operands[i].ordinal), target.bytes);
    if (sources[i] == nullptr) return Outcome::waits;
  }
  memory.fold(move, sources.data(), nullptr);
  bool trusted = true;
  for (const FoldOperand& operand : operands) {
    if (operand.peer >= 0) trusted &= shared.release(Rank(operand.peer), tag(operand.ordinal));
  }
  if (!trusted) return Outcome::waits;  // for a message that will not come: its sender has given up
  const auto recipients = plan.moves.recipients_of(move);
  if (recipients.empty() || shared.publish(target, recipients, tag(0), plan.stamp)) return Outcome::done;
  return Outcome::folded;
}

/// The message's data; null when it has not come in time or is another one than expected.
const void* ImmediateRun::look_for(int peer, Tag tag, std::size_t bytes) const {
  int looks_left = looks;
  int yields_left = kYields;
  for (;;) {
    const SharedMemory::Message message = shared.peek(Rank(peer), tag);
    if (message.data != nullptr) {
      return message.stamp == plan.stamp && message.bytes == bytes ? message.data : nullptr;
    }
    if (looks_left-- > looks - kEagerLooks) continue;
    if (looks_left > 0) {
      pause();
    } else if (!shared.oversubscribed() || yields_left-- == 0) {
      return nullptr;
    } else {
      ::sched_yield();
    }
    if ((looks_left & 15) == 0 && contenders.load(std::memory_order_relaxed) > 0) return nullptr;
  }
}

}  // namespace ucxring
