#include "collectives/execution.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ucxring {

namespace {
constexpr std::size_t kAlignment = 64;
}

void Execution::prepare(std::shared_ptr<const Plan> plan, const OperationBuffers& buffers,
                        Transport& transport, const Run& run) {
  plan_ = std::move(plan);
  transport_ = &transport;
  shared_ = transport.shared_memory();
  buffers_ = buffers;
  stamp_ = plan_->stamp;
  trouble_ = {};
  next_lane_ = 0;
  finished_lanes_ = 0;
  held_ = false;
  if (plan_->reduction.scale != nullptr) {
    scaled_input_ = std::make_unique_for_overwrite<std::byte[]>(plan_->input_bytes);
    plan_->reduction.scale(scaled_input_.get(), buffers_.input, buffers_.factor,
                           plan_->input_bytes / plan_->element_bytes);
    buffers_.input = scaled_input_.get();
  }
  const auto window = static_cast<std::size_t>(plan_->window);
  scratch_.resize(std::max(scratch_.size(), window * plan_->scratch_bytes + kAlignment));
  if (lanes_.size() < window) lanes_.resize(window);
  auto* base = scratch_.data();
  base += (kAlignment - reinterpret_cast<std::uintptr_t>(base) % kAlignment) % kAlignment;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].active = false;
    if (i >= window) continue;
    lanes_[i].memory = {plan_.get(), buffers_, base + i * plan_->scratch_bytes, 0};
    lanes_[i].sends.resize(plan_->moves.sends);
    start_lane(lanes_[i], i == 0 ? run.begun : Progress{});
  }
  begin(run.sequence, run.now, run.timeout);
}

void Execution::start_lane(Lane& lane, const Progress& begun) {
  lane.active = next_lane_ < plan_->lanes;
  if (!lane.active) return;
  lane.memory.index = next_lane_++;
  lane.move = begun.moves;
  lane.posted = false;
  lane.folded = begun.folded;
  lane.found = 0;
  for (auto& send : lane.sends) send.state = Completion::State::idle;
}

bool Execution::advance() {
  bool moved = false;
  const auto window = static_cast<std::size_t>(plan_->window);
  for (std::size_t i = 0; i < window && trouble_.status.ok(); ++i) {
    while (lanes_[i].active && advance_lane(lanes_[i])) moved = true;
  }
  if (finished_lanes_ < plan_->lanes) return moved;
  // A message that was passed over may say that this rank and a peer do not call the same operations.
  held_ = shared_ != nullptr && shared_->overlooked();
  if (!held_) end({});
  return true;
}

void Execution::end(const Status& status) {
  scaled_input_.reset();  // as large as the user's buffer, while the rest of a run is kept for the next one
  finish(status);
}

/// One move of the lane, or its end; true when it moved.
bool Execution::advance_lane(Lane& lane) {
  if (lane.move < plan_->moves.list.size()) {
    if (!run_move(lane)) return false;
    ++lane.move;
    return true;
  }
  if (!all_sends_complete(lane)) return false;
  ++finished_lanes_;
  start_lane(lane, {});
  return true;
}

std::string Execution::describe() const {
  return fmt::format("{} #{}", plan_->fingerprint.describe(), sequence());
}

std::vector<int> Execution::awaited_peers() const {
  std::vector<int> peers;
  for (const Lane& lane : lanes_) {
    if (!lane.active) continue;
    if (lane.posted) peers.push_back(peer_of(plan_->moves.list[lane.move]));
    for (std::size_t i = 0; i < plan_->moves.list.size(); ++i) {
      const Move& move = plan_->moves.list[i];
      if (i == lane.move && move.kind == Move::Kind::fold) {
        const auto operands = plan_->moves.operands_of(move);
        for (std::size_t k = lane.found; k < operands.size(); ++k) {
          if (operands[k].peer >= 0) peers.push_back(operands[k].peer);
        }
      }
      const bool sends = move.kind == Move::Kind::send || move.recipients.count > 0;
      if (!sends || lane.sends[move.send_slot].finished()) continue;
      if (move.kind == Move::Kind::send) peers.push_back(peer_of(move));
      for (const Recipient& recipient : plan_->moves.recipients_of(move))
        peers.push_back(recipient.peer.value);
    }
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

}  // namespace ucxring
