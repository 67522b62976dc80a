// A group's state: its operations in flight, and what happens when something goes wrong.
#pragma once

#include <array>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/control.hpp"
#include "collectives/execution.hpp"
#include "collectives/point_to_point.hpp"
#include "transport/base/process.hpp"

namespace ucxring {

/// One rank's side of a group. Public functions are thread-safe; `Driven` and `Listener` are called with the
/// baton. In a forked child of the process that made it `start` throws, `status` says why, `abort` and
/// `shutdown` do nothing, and it must not be destroyed.
class Group final : public Driven, private Listener {
 public:
  Group(std::unique_ptr<Transport> transport, Engine& engine, const Communicator::Options& options);
  ~Group() override;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Starts an operation; buffers have been checked, and so have the counts of an uneven one. Throws `Error`
  /// when the group is dead or the plan is impossible.
  [[nodiscard]] Operation start(const Fingerprint& fingerprint, const OperationBuffers& buffers,
                                const CallOptions& call, const UnevenCounts& counts = {});
  /// Starts a send or receive. Throws `Error` when the group is dead.
  [[nodiscard]] Operation start(const PeerCall& peer_call, const CallOptions& call);
  void abort(const Status& why);
  void shutdown();

  /// False in such a child.
  [[nodiscard]] bool is_here() const noexcept { return owner_.is_here(); }

  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  [[nodiscard]] int world_size() const noexcept { return world_size_; }
  [[nodiscard]] std::string_view transport_name() const noexcept { return transport_name_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_.load(std::memory_order_relaxed); }
  [[nodiscard]] Status status() const;
  void set_timeout(std::chrono::milliseconds timeout) noexcept { timeout_ms_.store(timeout.count()); }
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept {
    return std::chrono::milliseconds(timeout_ms_.load());
  }

  bool advance(Time now) override;
  [[nodiscard]] Time next_deadline() const noexcept override;
  [[nodiscard]] bool busy() const noexcept override {
    return !active_.empty() || !reported_.ok() || peers_.busy();
  }

 private:
  /// Questions to all peers after a deadline passed, and their answers.
  struct Inquiry {
    std::shared_ptr<Execution> late;
    Time until;
    std::vector<std::optional<ControlMessage>> answers;  // by rank
    int missing = 0;
  };
  /// What this rank called, or a peer announced, under a recent sequence number.
  struct Called {
    std::uint64_t sequence = 0;
    Stamp stamp = 0;
    int rank = -1;
  };
  /// What this rank called, for a message about it.
  struct Own {
    Stamp stamp = 0;
    std::string sizes;  ///< where it knows those of all ranks: see `Fingerprint::describe`
  };
  static constexpr std::size_t kRemembered = 64;
  static constexpr std::size_t kMaxInFlight = 32;
  static constexpr std::size_t kPoolSize = 256;
  static constexpr int kTellNobody = -1;  ///< as the origin of a failure
  static constexpr Duration kDrainTime =
      std::chrono::milliseconds(500);  ///< for operations in flight at shutdown
  static constexpr Duration kGrace =
      std::chrono::milliseconds(300);  ///< for the reason of a broken connection

  void on_unexpected(Rank peer, Tag tag, Stamp stamp) override;
  void on_control(Rank peer, std::span<const std::byte> message) override;
  void on_peer_lost(Rank peer, const Status& why) override;
  void on_peer_left(Rank peer, const Status& why) override;
  [[nodiscard]] bool waits() const override { return engine_.anyone_waits(); }

  [[nodiscard]] bool alive() { return failure_.ok() && (reported_.ok() || outlives_report()); }
  bool outlives_report();
  [[noreturn]] void refuse(const std::string& call) const;
  [[nodiscard]] Status is_elsewhere() const;
  void begin(const Plan& plan, std::uint64_t sequence);
  [[nodiscard]] Operation start_now(const Fingerprint& fingerprint, const OperationBuffers& buffers,
                                    const CallOptions& call, const UnevenCounts& counts, bool& stirs);
  [[nodiscard]] Progress run_immediately(const Plan& plan, const OperationBuffers& buffers,
                                         std::uint64_t sequence);
  bool advance_operations();
  bool advance_peers();
  void report(const Status& why, int origin, Duration grace);
  void report_mismatch(std::uint64_t sequence, int peer, Stamp theirs, const Own& ours);
  void look_back(const Fingerprint& fingerprint, std::uint64_t sequence);
  [[nodiscard]] Duration grace(int peer) const noexcept;
  bool settle_failures(Time now);
  [[nodiscard]] std::shared_ptr<Execution> idle_execution();
  void admit();

  void check_deadlines(Time now);
  void start_inquiry(const std::shared_ptr<Execution>& late, Time now);
  void answer_query(Rank peer, std::uint64_t asked);
  [[nodiscard]] Status conclude(const Inquiry& inquiry) const;
  [[nodiscard]] std::uint64_t completed() const noexcept;

  void fail(Status why, int origin);  // by value: callers pass members that it clears
  void announce(const ControlMessage& message);
  void drain();
  void close();
  [[nodiscard]] Status explain(const Execution& execution) const;
  [[nodiscard]] Status named(const Status& trouble) const;
  [[nodiscard]] Status mismatch(std::uint64_t sequence, int peer, Stamp theirs, const Own& ours) const;
  [[nodiscard]] Status misfit(std::uint64_t sequence, int peer, const Own& both,
                              const std::string& sent) const;
  [[nodiscard]] const Execution* in_flight(std::uint64_t sequence) const;
  [[nodiscard]] static Own own(const Plan& plan);
  [[nodiscard]] std::string title(const Execution& execution) const;

  const ProcessMark owner_;
  Engine& engine_;
  std::unique_ptr<Transport> transport_;
  SharedMemory* const shared_;  // of transport_
  const Rank rank_;
  const int world_size_;
  const std::string transport_name_;
  const std::string name_;
  std::shared_ptr<Context> context_;
  std::atomic<std::int64_t> timeout_ms_;
  std::atomic<std::uint64_t> sequence_{0};

  PlanCache plans_;
  const Config config_;
  PointToPoint peers_;
  std::vector<std::shared_ptr<Execution>> active_;
  std::deque<std::shared_ptr<Execution>> waiting_;  // started by the caller, not yet posted
  std::vector<std::shared_ptr<Execution>> pool_;
  std::size_t pool_cursor_ = 0;
  std::array<Called, kRemembered> ours_{};
  std::array<Called, kRemembered> early_{};
  std::array<Called, kRemembered>
      early_others_{};  ///< that differ from `early_`: one of two at least is wrong here
  std::uint64_t mismatched_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t peer_sequence_ = 0;
  bool dirty_ = false;
  std::optional<Inquiry> inquiry_;

  Status reported_;  // noticed inside progress, settled in advance once it is due
  int report_origin_ = -1;
  Time report_due_{};
  Status failure_;  // why the group is dead
  bool closed_ = false;
  bool shut_down_ = false;  // in good order, and not because of a failure
};

}  // namespace ucxring
