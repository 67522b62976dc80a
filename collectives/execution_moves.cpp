// How the executor carries out each kind of move.
#include <algorithm>
#include <cstring>

#include "collectives/execution.hpp"

namespace ucxring {

bool Execution::run_move(Lane& lane) {
  const Move& move = plan_->moves.list[lane.move];
  switch (move.kind) {
    case Move::Kind::send:
      return run_send(lane, move);
    case Move::Kind::publish:
      return run_publish(lane, move, move.source);
    case Move::Kind::fold:
      return run_fold(lane, move);
    case Move::Kind::receive:
      if (!sends_complete(lane, move) || !run_receive(lane, move)) return false;
      break;
    case Move::Kind::local:
      if (!sends_complete(lane, move)) return false;
      lane.memory.run_local(plan_->schedule.steps[move.step]);
      break;
  }
  if (move.completes) lane.memory.divide(move.target);
  return true;
}

int Execution::peer_of(const Move& move) const { return plan_->schedule.steps[move.step].peer; }

bool Execution::run_send(Lane& lane, const Move& move) {
  if (!lane.memory.takes_part(move.source)) return true;
  Completion& done = lane.sends[move.send_slot];
  const int peer = peer_of(move);
  const auto status = transport_->endpoint(Rank(peer))
                          .send(lane.memory.slice(move.source), tag(lane, move.ordinal), stamp_, done);
  if (!status.ok()) done.fail(status);
  if (done.state == Completion::State::failed) note(peer, done);
  return status.ok();
}

bool Execution::run_receive(Lane& lane, const Move& move) {
  if (!lane.posted) {
    if (!lane.memory.takes_part(move.target)) return true;
    post_receive(lane, move);
    lane.posted = true;
  }
  if (!lane.receive.finished()) return false;
  if (lane.receive.state == Completion::State::failed) {
    note(peer_of(move), lane.receive, lane.memory.slice(plan_->schedule.steps[move.step].target).bytes);
    return false;
  }
  lane.posted = false;
  return true;
}

void Execution::post_receive(Lane& lane, const Move& move) {
  const Step& step = plan_->schedule.steps[move.step];
  Endpoint& endpoint = transport_->endpoint(Rank(step.peer));
  const Buffer target = lane.memory.slice(step.target);
  lane.receive.state = Completion::State::idle;
  Status status;
  if (step.combine == Combine::copy) {
    status = endpoint.receive_into(target, tag(lane, move.ordinal), stamp_, lane.receive);
  } else {
    lane.incoming = {plan_.get(), target.data, lane.memory.slice(step.operand).data,
                     step.combine == Combine::reduce_before};
    status = endpoint.receive_apply({&apply_incoming, &lane.incoming}, target.bytes, tag(lane, move.ordinal),
                                    stamp_, lane.receive);
  }
  if (!status.ok()) lane.receive.fail(status);
}

void Execution::apply_incoming(void* context, std::size_t offset, std::span<const std::byte> bytes) {
  const auto& incoming = *static_cast<const Incoming*>(context);
  const std::byte* operand = incoming.operand + offset;
  const std::byte* left = incoming.before ? bytes.data() : operand;
  const std::byte* right = incoming.before ? operand : bytes.data();
  incoming.plan->reduction.combine(incoming.target + offset, left, right,
                                   bytes.size() / incoming.plan->element_bytes);
}

/// Sends `source` to the recipients of `move`; from registered memory without a copy.
bool Execution::run_publish(Lane& lane, const Move& move, ChunkRef source) {
  if (!lane.memory.takes_part(source)) return true;
  const Buffer data = lane.memory.slice(source);
  const auto recipients = plan_->moves.recipients_of(move);
  if (!move.must_copy && shared_->refer(data, recipients, tag(lane, 0), stamp_, lane.sends[move.send_slot])) {
    return true;
  }
  return shared_->publish(data, recipients, tag(lane, 0), stamp_);
}

bool Execution::run_fold(Lane& lane, const Move& move) {
  if (!lane.memory.takes_part(move.target)) return true;
  if (!lane.folded) {
    if (!sends_complete(lane, move) || !find_operands(lane, move)) return false;
    if (fold(lane, move)) return true;
    if (!trouble_.status.ok()) return false;
  }
  if (!run_publish(lane, move, move.target)) return false;
  lane.folded = false;
  return true;
}

/// Looks for the messages that are still missing; true when all are there.
bool Execution::find_operands(Lane& lane, const Move& move) {
  const auto operands = plan_->moves.operands_of(move);
  const std::size_t bytes = lane.memory.slice(move.target).bytes;
  lane.sources.resize(std::max(lane.sources.size(), operands.size()));
  const std::size_t found_before = lane.found;
  for (; lane.found < operands.size(); ++lane.found) {
    const FoldOperand& operand = operands[lane.found];
    if (operand.peer < 0) {
      lane.sources[lane.found] = lane.memory.slice(operand.chunk).data;
      continue;
    }
    const SharedMemory::Message message = shared_->peek(Rank(operand.peer), tag(lane, operand.ordinal));
    if (message.data == nullptr) {
      const Status& gone = shared_->gone(Rank(operand.peer));
      if (!gone.ok()) note(operand.peer, message, bytes, gone);
      return false;
    }
    if (message.stamp != stamp_ || message.bytes != bytes) {
      note(operand.peer, message, bytes,
           {ErrorCode::mismatch, "the peer's message is another one", operand.peer});
      return false;
    }
    lane.sources[lane.found] = message.data;
  }
  // Where a message lies may have changed since it was found: its sender may have needed the room.
  for (std::size_t i = 0; i < found_before; ++i) {
    if (operands[i].peer < 0) continue;
    lane.sources[i] = shared_->peek(Rank(operands[i].peer), tag(lane, operands[i].ordinal)).data;
    if (lane.sources[i] != nullptr) continue;
    lane.found = i;  // it is gone: looked for again
    return false;
  }
  return true;
}

/// Combines what was found, straight into the room of the message that follows where there is one. True when
/// the move is done; else its result is still to be sent, or there is trouble.
bool Execution::fold(Lane& lane, const Move& move) {
  const Buffer target = lane.memory.slice(move.target);
  const auto recipients = plan_->moves.recipients_of(move);
  const bool refers = !move.must_copy && shared_->refers(target);
  std::byte* room = nullptr;
  if (!recipients.empty() && target.bytes != 0 && !refers) room = shared_->reserve(target.bytes);
  lane.memory.fold(move, lane.sources.data(), room);
  const bool trusted = release_operands(lane, move);
  lane.found = 0;
  if (!trusted) return false;
  if (recipients.empty()) return true;
  lane.folded = room == nullptr || !shared_->commit(room, target.bytes, recipients, tag(lane, 0), stamp_);
  return !lane.folded;
}

/// Whether what was read from all of them is to be trusted.
bool Execution::release_operands(const Lane& lane, const Move& move) {
  bool trusted = true;
  for (const FoldOperand& operand : plan_->moves.operands_of(move)) {
    if (operand.peer < 0 || shared_->release(Rank(operand.peer), tag(lane, operand.ordinal))) continue;
    trusted = false;
    note(operand.peer, SharedMemory::Message{}, 0,
         {ErrorCode::peer_lost, "it gave up while its memory was read", operand.peer});
  }
  return trusted;
}

bool Execution::sends_complete(const Lane& lane, const Move& move) const {
  const auto hazards = plan_->moves.hazards_of(move);
  return std::all_of(hazards.begin(), hazards.end(),
                     [&](std::uint32_t slot) { return lane.sends[slot].finished(); });
}

bool Execution::all_sends_complete(const Lane& lane) {
  for (const Move& move : plan_->moves.list) {
    if (move.kind != Move::Kind::send && move.recipients.count == 0) continue;
    const Completion& send = lane.sends[move.send_slot];
    if (!send.finished()) return false;
    if (send.state == Completion::State::failed) {
      note(peer_of(move), send);
      return false;
    }
  }
  return true;
}

void Execution::note(int peer, const Completion& completion, std::size_t expected_bytes) {
  if (!trouble_.status.ok()) return;
  trouble_ = {peer, completion.received_stamp, completion.received_bytes, expected_bytes, completion.status};
}

void Execution::note(int peer, const SharedMemory::Message& message, std::size_t expected_bytes,
                     Status status) {
  if (!trouble_.status.ok()) return;
  trouble_ = {peer, message.stamp, message.bytes, expected_bytes, std::move(status)};
}

}  // namespace ucxring
