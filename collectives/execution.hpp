// The executor: runs one operation's plan over endpoints.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "collectives/engine.hpp"
#include "collectives/plan.hpp"
#include "transport/transport.hpp"

namespace ucxring {

/// One operation in flight on one rank. Lanes walk the plan's steps in order; a lane whose step cannot go on
/// waits while the others move. Everything but `done`, `status`, `sequence` and `wait_context` is called with
/// the engine's baton held. Reused: an operation of a shape that ran before allocates nothing.
class Execution {
 public:
  Execution() = default;
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// What an operation works on. Buffers have the plan's sizes.
  struct Buffers {
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    double factor = 1.0;  ///< of premul_sum
  };

  /// Prepares a run; nothing moves before `advance`.
  void prepare(std::shared_ptr<const Plan> plan, Buffers buffers, Transport& transport,
               std::uint64_t sequence, Time now, Duration timeout);

  /// Moves every lane as far as it goes; true when any moved. Sets `done` at the end. At the first failure it
  /// stops and leaves the rest to the group: `trouble` says what happened, and posts stay in flight until
  /// `Transport::abort`.
  bool advance();

  /// Ends a run from outside. The transport must have been aborted, or nothing posted.
  void fail(const Status& why) { finish(why); }

  /// True from completion until the next `prepare`. The status is visible once this is true.
  [[nodiscard]] const std::atomic<bool>& done() const noexcept { return done_; }
  [[nodiscard]] const Status& status() const noexcept { return status_; }
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
  [[nodiscard]] Time deadline() const noexcept { return deadline_; }
  [[nodiscard]] Time started() const noexcept { return started_; }
  [[nodiscard]] const Plan& plan() const noexcept { return *plan_; }

  /// A failure of a single message, before it is put into words; for the group's message.
  struct Trouble {
    int peer = -1;
    Stamp received_stamp = 0;
    std::size_t received_bytes = 0;
    Status status;
  };
  /// The first failure; its status is ok while there is none.
  [[nodiscard]] const Trouble& trouble() const noexcept { return trouble_; }

  /// Peers that this rank's lanes wait for, each once, in rank order.
  [[nodiscard]] std::vector<int> awaited_peers() const;

  /// Waits as `Operation::wait`.
  Status wait(std::chrono::milliseconds limit) const;
  /// Who drives while somebody waits, and the virtual clock if the transport has one. Set by the group.
  void set_waiting(Engine& engine, const Context* virtual_clock) noexcept;

 private:
  /// What a receive with reduction hands to its sink.
  struct Incoming {
    const Plan* plan = nullptr;
    std::byte* target = nullptr;
    const std::byte* operand = nullptr;
    bool before = false;
  };
  struct Lane {
    std::uint64_t index = 0;
    std::size_t step = 0;
    bool active = false;
    bool posted = false;  ///< the receive of `step` is posted
    Completion receive;
    Incoming incoming;
    std::vector<Completion> sends;
    std::byte* scratch = nullptr;
  };

  static void apply_incoming(void* context, std::size_t offset, std::span<const std::byte> bytes);

  bool advance_lane(Lane& lane);
  bool run_step(Lane& lane);
  bool run_send(Lane& lane, const Step& step, const StepPlan& planned);
  bool run_receive(Lane& lane, const Step& step, const StepPlan& planned);
  void post_receive(Lane& lane, const Step& step, const StepPlan& planned);
  void run_local(const Lane& lane, const Step& step);
  void divide(const Lane& lane, ChunkRef target) const;
  [[nodiscard]] bool sends_complete(const Lane& lane, std::uint32_t first, std::uint32_t count) const;
  [[nodiscard]] bool all_sends_complete(const Lane& lane);
  void start_lane(Lane& lane);
  void note(const Step& step, const Completion& completion);
  void finish(const Status& status);

  /// The lane's slice of a chunk. Writable even for inputs, which no step writes.
  [[nodiscard]] Buffer slice(const Lane& lane, ChunkRef ref) const;
  [[nodiscard]] std::size_t slice_size(const Lane& lane, ChunkRef ref) const;

  std::shared_ptr<const Plan> plan_;
  Transport* transport_ = nullptr;
  Buffers buffers_;
  std::uint64_t sequence_ = 0;
  Stamp stamp_ = 0;
  Time started_{};
  Time deadline_ = Time::max();
  Engine* engine_ = nullptr;
  const Context* virtual_clock_ = nullptr;
  std::vector<Lane> lanes_;
  std::uint64_t next_lane_ = 0;
  std::uint64_t finished_lanes_ = 0;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> scaled_input_;
  Trouble trouble_;
  Status status_;
  std::atomic<bool> done_{true};
};

}  // namespace ucxring
