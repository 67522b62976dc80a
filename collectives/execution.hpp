// The executor: runs one operation's plan over endpoints and shared memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/immediate.hpp"
#include "collectives/lane_memory.hpp"
#include "collectives/operation_state.hpp"
#include "collectives/plan.hpp"
#include "transport/transport.hpp"

namespace ucxring {

/// One operation in flight on one rank. Lanes walk the plan's moves in order; a lane whose move cannot go on
/// waits while the others move. Called with the engine's baton held. Reused: an operation of a shape that ran
/// before allocates nothing.
class Execution final : public OperationState {
 public:
  /// How an operation is run.
  struct Run {
    std::uint64_t sequence = 0;
    Time now{};
    std::chrono::milliseconds timeout{};
    Progress begun;  ///< of the first lane, by an `ImmediateRun`
  };

  /// Prepares a run; nothing moves before `advance`.
  void prepare(std::shared_ptr<const Plan> plan, const OperationBuffers& buffers, Transport& transport,
               const Run& run);

  /// Moves every lane as far as it goes; true when any moved. Sets `done` at the end. At the first failure it
  /// stops and leaves the rest to the group: `trouble` says what happened, and posts stay in flight until
  /// `Transport::abort`.
  bool advance();

  /// Whether all its lanes are through and it waits only for a look at messages that were passed over:
  /// `advance` must then be called again, even if nothing arrives.
  [[nodiscard]] bool held() const noexcept { return held_; }

  /// Ends a run from outside. The transport must have been aborted, or nothing posted.
  void fail(const Status& why) { end(why); }

  [[nodiscard]] const Plan& plan() const noexcept { return *plan_; }
  [[nodiscard]] std::string describe() const override;

  /// A failure of a single message, before it is put into words; for the group's message.
  struct Trouble {
    int peer = -1;
    Stamp received_stamp = 0;
    std::size_t received_bytes = 0;  ///< of the message, and
    std::size_t expected_bytes = 0;  ///< what this rank expected of it
    Status status;
  };
  /// The first failure; its status is ok while there is none.
  [[nodiscard]] const Trouble& trouble() const noexcept { return trouble_; }

  /// Peers that this rank's lanes wait for, each once, in rank order.
  [[nodiscard]] std::vector<int> awaited_peers() const;

 private:
  /// What a receive with reduction hands to its sink.
  struct Incoming {
    const Plan* plan = nullptr;
    std::byte* target = nullptr;
    const std::byte* operand = nullptr;
    bool before = false;
  };
  struct Lane {
    LaneMemory memory;
    std::size_t move = 0;
    bool active = false;
    bool posted = false;    ///< the receive of `move` is posted
    bool folded = false;    ///< the fold of `move` is done, its result not yet sent
    std::size_t found = 0;  ///< operands of the fold of `move` that are there
    Completion receive;
    Incoming incoming;
    std::vector<Completion> sends;
    std::vector<const void*> sources;  ///< where the operands of the fold of `move` lie
  };

  static void apply_incoming(void* context, std::size_t offset, std::span<const std::byte> bytes);

  void end(const Status& status);
  void start_lane(Lane& lane, const Progress& begun);
  bool advance_lane(Lane& lane);

  // execution_moves.cpp
  bool run_move(Lane& lane);
  bool run_send(Lane& lane, const Move& move);
  bool run_receive(Lane& lane, const Move& move);
  void post_receive(Lane& lane, const Move& move);
  bool run_publish(Lane& lane, const Move& move, ChunkRef source);
  bool run_fold(Lane& lane, const Move& move);
  bool find_operands(Lane& lane, const Move& move);
  bool fold(Lane& lane, const Move& move);
  bool release_operands(const Lane& lane, const Move& move);
  [[nodiscard]] bool sends_complete(const Lane& lane, const Move& move) const;
  [[nodiscard]] bool all_sends_complete(const Lane& lane);
  [[nodiscard]] Tag tag(const Lane& lane, std::uint32_t step) const noexcept {
    return Tag::make(sequence(), lane.memory.index, step);
  }
  void note(int peer, const Completion& completion, std::size_t expected_bytes = 0);
  void note(int peer, const SharedMemory::Message& message, std::size_t expected_bytes, Status status);
  [[nodiscard]] int peer_of(const Move& move) const;

  std::shared_ptr<const Plan> plan_;
  Transport* transport_ = nullptr;
  SharedMemory* shared_ = nullptr;
  OperationBuffers buffers_;
  Stamp stamp_ = 0;
  std::vector<Lane> lanes_;
  std::uint64_t next_lane_ = 0;
  std::uint64_t finished_lanes_ = 0;
  bool held_ = false;
  std::vector<std::byte> scratch_;
  std::unique_ptr<std::byte[]> scaled_input_;  ///< while it runs
  Trouble trouble_;
};

}  // namespace ucxring
