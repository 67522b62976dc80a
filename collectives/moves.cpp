#include "collectives/moves.hpp"

#include <algorithm>
#include <unordered_map>

namespace ucxring {
namespace {

/// Walks the steps of a schedule and writes its moves.
class Fusion {
 public:
  Fusion(const Schedule& schedule, const MoveEnvironment& environment)
      : steps_(schedule.steps), environment_(environment) {
    number_messages();
  }

  Moves run() {
    std::size_t at = 0;
    while (at < steps_.size()) at = fuse(at);
    find_hazards();
    return std::move(moves_);
  }

 private:
  /// Ordinals are those of the schedule, so that both sides agree whatever they fuse.
  void number_messages() {
    std::unordered_map<int, std::uint32_t> sent;
    std::unordered_map<int, std::uint32_t> received;
    for (const Step& step : steps_) {
      ordinals_.push_back(step.action == Action::send      ? sent[step.peer]++
                          : step.action == Action::receive ? received[step.peer]++
                                                           : 0);
    }
  }

  [[nodiscard]] bool is_near(const Step& step) const {
    return step.action != Action::local && environment_.shared != nullptr &&
           environment_.shared->reaches(Rank(step.peer));
  }

  /// Writes the move that begins at step `at`; returns the first step after it.
  std::size_t fuse(std::size_t at) {
    const Step& step = steps_[at];
    if (is_near(step)) return step.action == Action::send ? publish(at) : fold(at);
    if (step.action == Action::local) {
      if (const std::size_t end = fold(at); end != at) return end;
    }
    Move& move = add(Move::Kind::local, at);
    move.completes = step.completes;
    move.ordinal = ordinals_[at];
    move.source = step.source;
    move.target = step.target;
    if (step.action == Action::send) {
      move.kind = Move::Kind::send;
      move.send_slot = moves_.sends++;
    } else if (step.action == Action::receive) {
      move.kind = Move::Kind::receive;
    }
    return at + 1;
  }

  Move& add(Move::Kind kind, std::size_t at) {
    Move& move = moves_.list.emplace_back();
    move.kind = kind;
    move.step = static_cast<std::uint32_t>(at);
    return move;
  }

  std::size_t publish(std::size_t at) {
    Move& move = add(Move::Kind::publish, at);
    move.source = steps_[at].source;
    return add_recipients(move, at, move.source);
  }

  /// Adds the sends of `chunk` to near peers from step `at` on; returns the first step after them.
  std::size_t add_recipients(Move& move, std::size_t at, ChunkRef chunk) {
    move.recipients.first = static_cast<std::uint32_t>(moves_.recipients.size());
    for (; at < steps_.size(); ++at) {
      const Step& send = steps_[at];
      if (send.action != Action::send || !is_near(send) || send.source != chunk) break;
      moves_.recipients.push_back({Rank(send.peer), ordinals_[at]});
    }
    move.recipients.count = static_cast<std::uint32_t>(moves_.recipients.size()) - move.recipients.first;
    if (move.recipients.count > 0) move.send_slot = moves_.sends++;
    return at;
  }

  [[nodiscard]] FoldOperand message(std::size_t at) const { return {steps_[at].peer, ordinals_[at], {}}; }
  static FoldOperand own(ChunkRef chunk) { return {-1, 0, chunk}; }

  /// Writes a fold for the longest chain from step `at` on; writes nothing and returns `at` when a local step
  /// begins no chain that takes in a message.
  std::size_t fold(std::size_t at) {
    std::vector<FoldOperand> operands;
    std::size_t end = begin_chain(at, operands);
    bool completes = steps_[at].completes;
    while (end < steps_.size() && operands.size() < kMostOperands && continues(at, end)) {
      operands.push_back(steps_[end].action == Action::local ? own(steps_[end].source) : message(end));
      completes = steps_[end].completes;
      ++end;
    }
    const bool has_message =
        std::any_of(operands.begin(), operands.end(), [](const FoldOperand& each) { return each.peer >= 0; });
    if (!has_message) return at;
    Move& move = add(Move::Kind::fold, at);
    move.completes = completes;
    move.target = steps_[end - 1].target;
    move.operands = {static_cast<std::uint32_t>(moves_.operands.size()),
                     static_cast<std::uint32_t>(operands.size())};
    moves_.operands.insert(moves_.operands.end(), operands.begin(), operands.end());
    return move.target.space == Space::none ? end : add_recipients(move, end, move.target);
  }

  /// The operands of the first step of a chain; returns the step after it.
  std::size_t begin_chain(std::size_t at, std::vector<FoldOperand>& operands) const {
    const Step& step = steps_[at];
    const FoldOperand incoming = step.action == Action::local ? own(step.source) : message(at);
    if (step.combine == Combine::copy) {
      operands = {incoming};
    } else if (step.combine == Combine::reduce) {
      operands = {own(step.operand), incoming};
    } else {
      operands = {incoming, own(step.operand)};
    }
    return at + 1;
  }

  /// Whether step `at` combines the partial sum of the chain begun at `first` with one more operand, and
  /// nobody else sees that sum.
  [[nodiscard]] bool continues(std::size_t first, std::size_t at) const {
    const Step& step = steps_[at];
    const ChunkRef partial = steps_[at - 1].target;
    if (step.action == Action::send || step.combine != Combine::reduce || step.operand != partial)
      return false;
    if (step.action == Action::receive && !is_near(step)) return false;
    if (step.action == Action::local && step.source == partial) return false;
    if (steps_[at - 1].completes || partial.space != Space::scratch) return false;
    return !is_read_after(partial, at) && !is_operand(first, at, partial);
  }

  /// Whether a step after `at` reads `chunk` before it is written again.
  [[nodiscard]] bool is_read_after(ChunkRef chunk, std::size_t at) const {
    if (steps_[at].target == chunk) return false;
    for (std::size_t i = at + 1; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      if (step.action != Action::receive && step.source == chunk) return true;
      if (step.action != Action::send && step.combine != Combine::copy && step.operand == chunk) return true;
      if (step.action != Action::send && step.target == chunk) return false;
    }
    return false;
  }

  /// Whether the chain from `first` up to `at` uses `chunk` as an operand of its own beside the partial sum.
  [[nodiscard]] bool is_operand(std::size_t first, std::size_t at, ChunkRef chunk) const {
    for (std::size_t i = first; i <= at; ++i) {
      if (steps_[i].action == Action::local && steps_[i].source == chunk) return true;
    }
    return false;
  }

  /// For each writing move, the earlier sends of the same place since that place was last written. A fold of
  /// several messages must not wait for readers of what it overwrites, who may be waiting for it in their own
  /// folds: such sources are copied when they are published.
  void find_hazards() {
    struct Sent {
      ChunkRef chunk;
      std::size_t move;
    };
    std::vector<Sent> sent;
    for (std::size_t i = 0; i < moves_.list.size(); ++i) {
      Move& move = moves_.list[i];
      const bool writes = move.kind != Move::Kind::send && move.kind != Move::Kind::publish;
      if (writes && move.target.space != Space::none) {
        move.hazards.first = static_cast<std::uint32_t>(moves_.hazards.size());
        std::erase_if(sent, [&](const Sent& earlier) {
          if (!environment_.same_place(earlier.chunk, move.target)) return false;
          moves_.hazards.push_back(moves_.list[earlier.move].send_slot);
          if (move.operands.count > 1) moves_.list[earlier.move].must_copy = true;
          return true;
        });
        move.hazards.count = static_cast<std::uint32_t>(moves_.hazards.size()) - move.hazards.first;
      }
      if (!writes) sent.push_back({move.source, i});
      if (move.kind == Move::Kind::fold && move.recipients.count > 0) sent.push_back({move.target, i});
    }
  }

  const std::vector<Step>& steps_;
  const MoveEnvironment& environment_;
  std::vector<std::uint32_t> ordinals_;
  Moves moves_;
};

}  // namespace

Moves make_moves(const Schedule& schedule, const MoveEnvironment& environment) {
  return Fusion(schedule, environment).run();
}

}  // namespace ucxring
