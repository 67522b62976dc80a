#include "collectives/execution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace ucxring {

namespace {
constexpr std::size_t kAlignment = 64;
}

void Execution::prepare(std::shared_ptr<const Plan> plan, Buffers buffers, Transport& transport,
                        std::uint64_t sequence, Time now, Duration timeout) {
  plan_ = std::move(plan);
  transport_ = &transport;
  buffers_ = buffers;
  sequence_ = sequence;
  stamp_ = plan_->fingerprint.pack();
  started_ = now;
  deadline_ = timeout < Time::max() - now ? now + timeout : Time::max();
  trouble_ = {};
  status_ = {};
  next_lane_ = 0;
  finished_lanes_ = 0;
  const auto window = static_cast<std::size_t>(plan_->window);
  scratch_.resize(std::max(scratch_.size(), window * plan_->scratch_bytes + kAlignment));
  if (lanes_.size() < window) lanes_.resize(window);
  auto* base = scratch_.data();
  base += (kAlignment - reinterpret_cast<std::uintptr_t>(base) % kAlignment) % kAlignment;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].active = false;
    if (i >= window) continue;
    lanes_[i].scratch = base + i * plan_->scratch_bytes;
    lanes_[i].sends.resize(plan_->sends);
    start_lane(lanes_[i]);
  }
  if (plan_->reduction.scale != nullptr) {
    scaled_input_.resize(plan_->input_bytes);
    plan_->reduction.scale(scaled_input_.data(), buffers_.input, buffers_.factor,
                           plan_->input_bytes / plan_->element_bytes);
    buffers_.input = scaled_input_.data();
  }
  done_.store(false, std::memory_order_release);
}

void Execution::start_lane(Lane& lane) {
  lane.active = next_lane_ < plan_->lanes;
  if (!lane.active) return;
  lane.index = next_lane_++;
  lane.step = 0;
  lane.posted = false;
  for (auto& send : lane.sends) send.state = Completion::State::idle;
}

bool Execution::advance() {
  bool moved = false;
  const auto window = static_cast<std::size_t>(plan_->window);
  for (std::size_t i = 0; i < window && trouble_.status.ok(); ++i) {
    while (lanes_[i].active && advance_lane(lanes_[i])) moved = true;
  }
  if (finished_lanes_ == plan_->lanes) finish({});
  return moved;
}

void Execution::set_waiting(Engine& engine, const Context* virtual_clock) noexcept {
  engine_ = &engine;
  virtual_clock_ = virtual_clock;
}

Status Execution::wait(std::chrono::milliseconds limit) const {
  auto until = Time::max();
  if (limit.count() > 0) {
    until = (virtual_clock_ != nullptr ? virtual_clock_->now() : std::chrono::steady_clock::now()) + limit;
  }
  if (engine_->wait(done_, until, virtual_clock_)) return status_;
  return {ErrorCode::timeout,
          fmt::format(
              "{} #{} is not complete after waiting {} ms; it is still in flight and may be waited for again",
              plan_->fingerprint.describe(), sequence_, limit.count())};
}

void Execution::finish(const Status& status) {
  status_ = status;
  done_.store(true);
}

/// One step of the lane, or its end; true when it moved.
bool Execution::advance_lane(Lane& lane) {
  if (lane.step < plan_->steps.size()) {
    if (!run_step(lane)) return false;
    ++lane.step;
    return true;
  }
  if (!all_sends_complete(lane)) return false;
  ++finished_lanes_;
  start_lane(lane);
  return true;
}

bool Execution::run_step(Lane& lane) {
  const Step& step = plan_->schedule.steps[lane.step];
  const StepPlan& planned = plan_->steps[lane.step];
  if (step.action == Action::send) return run_send(lane, step, planned);
  if (!sends_complete(lane, planned.first_hazard, planned.hazard_count)) return false;
  if (step.action == Action::receive && !run_receive(lane, step, planned)) return false;
  if (step.action == Action::local) run_local(lane, step);
  if (step.completes && plan_->reduction.divide != nullptr) divide(lane, step.target);
  return true;
}

// Empty slices are not sent, except in the first lane: that one always sends, so that every operation has a
// message from which the ranks see whether they agree.
bool Execution::run_send(Lane& lane, const Step& step, const StepPlan& planned) {
  const Buffer data = slice(lane, step.source);
  if (data.bytes == 0 && lane.index != 0) return true;
  Completion& done = lane.sends[planned.send_slot];
  const auto status = transport_->endpoint(Rank(step.peer))
                          .send(data, Tag::make(sequence_, lane.index, planned.ordinal), stamp_, done);
  if (!status.ok()) done.fail(status);
  if (done.state == Completion::State::failed) note(step, done);
  return status.ok();
}

bool Execution::run_receive(Lane& lane, const Step& step, const StepPlan& planned) {
  if (!lane.posted) {
    if (slice_size(lane, step.target) == 0 && lane.index != 0) return true;
    post_receive(lane, step, planned);
    lane.posted = true;
  }
  if (!lane.receive.finished()) return false;
  if (lane.receive.state == Completion::State::failed) {
    note(step, lane.receive);
    return false;
  }
  lane.posted = false;
  return true;
}

void Execution::post_receive(Lane& lane, const Step& step, const StepPlan& planned) {
  Endpoint& endpoint = transport_->endpoint(Rank(step.peer));
  const Tag tag = Tag::make(sequence_, lane.index, planned.ordinal);
  const Buffer target = slice(lane, step.target);
  lane.receive.state = Completion::State::idle;
  Status status;
  if (step.combine == Combine::copy) {
    status = endpoint.receive_into(target, tag, stamp_, lane.receive);
  } else {
    lane.incoming = {plan_.get(), target.data, slice(lane, step.operand).data,
                     step.combine == Combine::reduce_before};
    status =
        endpoint.receive_apply({&apply_incoming, &lane.incoming}, target.bytes, tag, stamp_, lane.receive);
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

void Execution::run_local(const Lane& lane, const Step& step) {
  const Buffer target = slice(lane, step.target);
  const Buffer source = slice(lane, step.source);
  if (target.bytes == 0) return;
  if (step.combine == Combine::copy) {
    if (target.data != source.data) std::memcpy(target.data, source.data, target.bytes);
    return;
  }
  const Buffer operand = slice(lane, step.operand);
  const bool before = step.combine == Combine::reduce_before;
  plan_->reduction.combine(target.data, before ? source.data : operand.data,
                           before ? operand.data : source.data, target.bytes / plan_->element_bytes);
}

void Execution::divide(const Lane& lane, ChunkRef ref) const {
  const Buffer target = slice(lane, ref);
  plan_->reduction.divide(target.data, target.data, plan_->divisor, target.bytes / plan_->element_bytes);
}

bool Execution::sends_complete(const Lane& lane, std::uint32_t first, std::uint32_t count) const {
  const auto begin = plan_->hazards.begin() + first;
  return std::all_of(begin, begin + count, [&](std::uint32_t slot) { return lane.sends[slot].finished(); });
}

bool Execution::all_sends_complete(const Lane& lane) {
  for (std::size_t i = 0; i < plan_->steps.size(); ++i) {
    const Step& step = plan_->schedule.steps[i];
    if (step.action != Action::send) continue;
    const Completion& send = lane.sends[plan_->steps[i].send_slot];
    if (!send.finished()) return false;
    if (send.state == Completion::State::failed) {
      note(step, send);
      return false;
    }
  }
  return true;
}

void Execution::note(const Step& step, const Completion& completion) {
  if (!trouble_.status.ok()) return;
  trouble_ = {step.peer, completion.received_stamp, completion.received_bytes, completion.status};
}

std::vector<int> Execution::awaited_peers() const {
  std::vector<int> peers;
  for (const Lane& lane : lanes_) {
    if (!lane.active) continue;
    if (lane.posted) peers.push_back(plan_->schedule.steps[lane.step].peer);
    for (std::size_t i = 0; i < plan_->steps.size(); ++i) {
      const bool send = plan_->schedule.steps[i].action == Action::send;
      if (send && !lane.sends[plan_->steps[i].send_slot].finished()) {
        peers.push_back(plan_->schedule.steps[i].peer);
      }
    }
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

std::size_t Execution::slice_size(const Lane& lane, ChunkRef ref) const { return slice(lane, ref).bytes; }

Buffer Execution::slice(const Lane& lane, ChunkRef ref) const {
  const auto chunk = static_cast<std::size_t>(ref.chunk);
  const std::size_t begin = lane.index * plan_->slice_bytes;
  const auto cut = [&](const Extent& extent) {
    return begin >= extent.bytes ? 0 : std::min(plan_->slice_bytes, extent.bytes - begin);
  };
  switch (ref.space) {
    case Space::none:
      return {};
    case Space::input: {
      const Extent& extent = plan_->input[chunk];
      return {const_cast<std::byte*>(buffers_.input) + extent.offset + begin, cut(extent)};
    }
    case Space::output: {
      const Extent& extent = plan_->output[chunk];
      return {buffers_.output + extent.offset + begin, cut(extent)};
    }
    case Space::scratch:
      break;
  }
  const Extent& extent = plan_->scratch[chunk];
  return {lane.scratch + extent.offset, cut(extent)};
}

}  // namespace ucxring
