#include "collectives/schedule.hpp"

#include <fmt/format.h>

#include <utility>

namespace ucxring {

ScheduleBuilder::ScheduleBuilder(int input_chunks, int output_chunks, int widest) {
  schedule_.widest = widest;
  schedule_.input_chunks = input_chunks;
  schedule_.output_chunks = output_chunks;
}

ChunkRef ScheduleBuilder::scratch(ChunkRef like) { return bundle(like, 1); }

ChunkRef ScheduleBuilder::bundle(ChunkRef like, int chunks) {
  if (like.space == Space::scratch) like = schedule_.scratch[static_cast<std::size_t>(like.chunk)].like;
  const ChunkRef made{Space::scratch, static_cast<int>(schedule_.scratch.size()), chunks};
  for (int place = 0; place < chunks; ++place) schedule_.scratch.push_back({like, place});
  return made;
}

ScheduleBuilder& ScheduleBuilder::send(Rank peer, ChunkRef source) {
  schedule_.steps.push_back({.action = Action::send, .peer = peer.value, .source = source});
  return *this;
}

ScheduleBuilder& ScheduleBuilder::receive(Rank peer, ChunkRef target) {
  schedule_.steps.push_back({.action = Action::receive, .peer = peer.value, .target = target});
  return *this;
}

ScheduleBuilder& ScheduleBuilder::receive_reduce(Rank peer, ChunkRef operand, ChunkRef target) {
  schedule_.steps.push_back({.action = Action::receive,
                             .combine = Combine::reduce,
                             .peer = peer.value,
                             .operand = operand,
                             .target = target});
  return *this;
}

ScheduleBuilder& ScheduleBuilder::receive_reduce_before(Rank peer, ChunkRef operand, ChunkRef target) {
  receive_reduce(peer, operand, target);
  schedule_.steps.back().combine = Combine::reduce_before;
  return *this;
}

ScheduleBuilder& ScheduleBuilder::copy(ChunkRef source, ChunkRef target) {
  schedule_.steps.push_back({.action = Action::local, .source = source, .target = target});
  return *this;
}

ScheduleBuilder& ScheduleBuilder::reduce(ChunkRef left, ChunkRef right, ChunkRef target) {
  schedule_.steps.push_back({.action = Action::local,
                             .combine = Combine::reduce,
                             .source = right,
                             .operand = left,
                             .target = target});
  return *this;
}

ScheduleBuilder& ScheduleBuilder::completes() {
  if (schedule_.steps.empty()) throw Error(ErrorCode::internal, "completes() needs a step before it");
  schedule_.steps.back().completes = true;
  return *this;
}

Schedule ScheduleBuilder::build() && { return std::move(schedule_); }

std::string describe(ChunkRef chunk) {
  if (chunk.chunks != 1) {
    return fmt::format("{} and {} more", describe(chunk.part(0)), chunk.chunks - 1);
  }
  switch (chunk.space) {
    case Space::none:
      return "signal";
    case Space::input:
      return fmt::format("input[{}]", chunk.chunk);
    case Space::output:
      return fmt::format("output[{}]", chunk.chunk);
    case Space::scratch:
      return fmt::format("scratch[{}]", chunk.chunk);
  }
  return fmt::format("unknown space {}", static_cast<int>(chunk.space));
}

namespace {

/// The right side of "target = …".
std::string combination(const Step& step, const std::string& incoming) {
  switch (step.combine) {
    case Combine::copy:
      return incoming;
    case Combine::reduce:
      return fmt::format("{} + {}", describe(step.operand), incoming);
    case Combine::reduce_before:
      return fmt::format("{} + {}", incoming, describe(step.operand));
  }
  return fmt::format("unknown combination {}", static_cast<int>(step.combine));
}

}  // namespace

std::string describe(const Step& step) {
  switch (step.action) {
    case Action::send:
      return fmt::format("send {} to rank {}", describe(step.source), step.peer);
    case Action::receive:
      return fmt::format("receive from rank {}: {} = {}", step.peer, describe(step.target),
                         combination(step, "incoming"));
    case Action::local:
      return fmt::format("{} = {}", describe(step.target), combination(step, describe(step.source)));
  }
  return fmt::format("unknown action {}", static_cast<int>(step.action));
}

}  // namespace ucxring
