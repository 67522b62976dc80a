#include "collectives/peer_plan.hpp"

#include <utility>

#include "collectives/slicing.hpp"

namespace ucxring {
namespace {

Schedule one_step(const PeerTransfer& transfer) {
  ScheduleBuilder builder(transfer.sends ? 1 : 0, transfer.sends ? 0 : 1);
  if (transfer.sends) {
    builder.send(transfer.peer, input(0));
  } else {
    builder.receive(transfer.peer, output(0));
  }
  return std::move(builder).build();
}

/// Gives the messages of `moves` tags that no collective has.
void mark_as_peer_data(Moves& moves) {
  for (Move& move : moves.list) move.ordinal = PeerMessage::data_step();
  for (Recipient& recipient : moves.recipients) recipient.step = PeerMessage::data_step();
  for (FoldOperand& operand : moves.operands) operand.ordinal = PeerMessage::data_step();
}

}  // namespace

PeerPlans::PeerPlans(Rank rank, std::vector<int> hosts, const SharedMemory* shared, const Config& config)
    : rank_(rank), hosts_(std::move(hosts)), shared_(shared), config_(config), entries_(kCapacity) {}

Plan PeerPlans::make(const PeerTransfer& transfer) const {
  Plan plan;
  plan.stamp = PeerMessage{0, 0, transfer.type, transfer.bytes}.stamp();
  plan.algorithm = "one message";
  plan.schedule = one_step(transfer);
  plan.moves = make_moves(plan.schedule, {shared_, [](ChunkRef, ChunkRef) { return false; }});
  mark_as_peer_data(plan.moves);
  (transfer.sends ? plan.input : plan.output) = {{0, transfer.bytes}};
  (transfer.sends ? plan.input_bytes : plan.output_bytes) = transfer.bytes;
  const auto host_of = [&](Rank rank) { return hosts_[static_cast<std::size_t>(rank.value)]; };
  const bool near = host_of(rank_) == host_of(transfer.peer);
  const Slicing slicing = slice_chunks(transfer.bytes, near, config_);
  plan.slice_bytes = slicing.slice_bytes;
  plan.lanes = slicing.lanes;
  plan.window = slicing.window;
  return plan;
}

std::shared_ptr<const Plan> PeerPlans::get(const PeerTransfer& transfer) {
  const std::uint64_t mixed =
      (transfer.bytes * 2 + (transfer.sends ? 1 : 0) + static_cast<std::uint64_t>(transfer.peer.value) * 7) *
      0x9e3779b97f4a7c15U;
  Entry& entry = entries_[(mixed >> 32U) % kCapacity];
  if (!entry.plan || entry.transfer != transfer) {
    entry = {transfer, std::make_shared<const Plan>(make(transfer))};
  }
  return entry.plan;
}

}  // namespace ucxring
