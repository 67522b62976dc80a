#include "collectives/peer_operation.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ucxring {

std::string PeerCall::describe() const {
  const std::string what = describe_message(type, buffer.bytes, tag);
  if (sends) return fmt::format("send({}) to rank {}", what, peer.value);
  if (any_source()) return fmt::format("receive({}) from any rank", what);
  return fmt::format("receive({}) from rank {}", what, peer.value);
}

void PeerOperation::post_send(Transport& transport, std::uint64_t number) {
  message_ = {number, call_.tag, call_.type, call_.buffer.bytes};
  Endpoint& endpoint = transport.endpoint(call_.peer);
  const Stamp stamp = message_.stamp();
  if (message_.bytes <= kEagerBytes) {
    stage_ = Stage::posted;
    return note(endpoint.send(call_.buffer, message_.wire_tag(PeerMessage::Kind::eager), stamp, head_));
  }
  stage_ = Stage::offered;
  note(endpoint.receive_into({}, message_.wire_tag(PeerMessage::Kind::ready), stamp, ready_));
  note(endpoint.send({}, message_.wire_tag(PeerMessage::Kind::offer), stamp, head_));
}

bool PeerOperation::accepts(const PeerArrival& arrival, Rank self) {
  const bool fits = arrival.message.bytes <= call_.buffer.bytes;
  if (fits && arrival.message.type == call_.type) return true;
  trouble_ = {
      ErrorCode::mismatch,
      fmt::format(
          "rank {} sent a message ({}; {} bytes) to rank {}, which receives it with {} of {} bytes: {}",
          arrival.from.value,
          describe_message(arrival.message.type, arrival.message.bytes, arrival.message.tag),
          arrival.message.bytes, self.value, call_.describe(), call_.buffer.bytes,
          fits ? "both must have the same dtype" : "the receive must have room for the message"),
      arrival.from.value};
  return false;
}

void PeerOperation::post_receive(Transport& transport, PeerPlans& plans, const PeerArrival& arrival) {
  message_ = arrival.message;
  source_ = arrival.from;
  received_bytes_ = message_.bytes;
  if (arrival.kept != nullptr) {
    stage_ = Stage::posted;
    kept_ = arrival.kept;
    return;
  }
  Endpoint& endpoint = transport.endpoint(arrival.from);
  if (!arrival.offer) {
    stage_ = Stage::posted;
    return note(
        endpoint.receive_into({call_.buffer.data, received_bytes_}, arrival.tag, arrival.stamp, head_));
  }
  note(endpoint.receive_into({}, arrival.tag, arrival.stamp, head_));
  note(endpoint.send({}, message_.wire_tag(PeerMessage::Kind::ready), arrival.stamp, ready_));
  start_moving(transport, plans);
}

void PeerOperation::start_moving(Transport& transport, PeerPlans& plans) {
  stage_ = Stage::moving;
  const Rank other = call_.sends ? call_.peer : source_;
  const auto plan = plans.get({call_.sends, other, call_.type, message_.bytes});
  data_ = std::make_unique<Execution>();
  Execution::Run run;
  run.sequence = message_.number;
  data_->prepare(plan, {call_.buffer.data, call_.buffer.data}, transport, run);
}

bool PeerOperation::advance(Transport& transport, PeerPlans& plans) {
  if (stage_ == Stage::waiting || note(head_) || note(ready_)) return false;
  bool moved = false;
  if (stage_ == Stage::offered) {
    if (ready_.state != Completion::State::done) return false;
    start_moving(transport, plans);
    moved = true;
  }
  if (data_ != nullptr && !data_->done()) {
    moved |= data_->advance();
    if (!data_->trouble().status.ok()) note(data_->trouble().status);
    if (!data_->done()) return moved;
  }
  if (!head_.finished() || !ready_.finished() || !take_kept()) return moved;
  data_.reset();
  finish({});
  return true;
}

/// Copies the message from where it was kept, if it was; false when it is not there yet.
bool PeerOperation::take_kept() {
  if (kept_ == nullptr) return true;
  if (note(kept_->done) || !kept_->done.finished()) return false;
  std::copy(kept_->data.begin(), kept_->data.end(), call_.buffer.data);
  kept_.reset();
  return true;
}

/// Takes note of a message that failed; true when it did.
bool PeerOperation::note(const Completion& completion) {
  if (completion.state == Completion::State::failed) note(completion.status);
  return !trouble_.ok();
}

void PeerOperation::note(const Status& status) {
  if (status.ok() || !trouble_.ok()) return;
  const int other = call_.any_source() ? source_.value : call_.peer.value;
  trouble_ = {status.code(), fmt::format("{}: {}", call_.describe(), status.message()), other};
}

}  // namespace ucxring
