// One send or receive between two ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/execution.hpp"
#include "collectives/operation_state.hpp"
#include "collectives/peer_message.hpp"
#include "collectives/peer_plan.hpp"

namespace ucxring {

/// What the caller asked for.
struct PeerCall {
  bool sends = false;
  Rank peer{};           ///< receive: no rank for a message of any
  std::int32_t tag = 0;  ///< any 32 bits
  DataType type = DataType::uint8;
  Buffer buffer;  ///< of a send only read

  [[nodiscard]] bool any_source() const noexcept { return peer == Rank(); }
  /// "send(float32, 8 elements, tag 3) to rank 1".
  [[nodiscard]] std::string describe() const;
};

/// A small message that was taken from the transport before a receive claimed it.
struct KeptMessage {
  std::vector<std::byte> data;
  Completion done;
};

/// A message that has come and that no receive has claimed.
struct PeerArrival {
  Rank from;
  PeerMessage message;
  bool offer = false;  ///< of a large message, which its sender keeps
  Tag tag;             ///< by which the transport keeps it
  Stamp stamp = 0;
  std::shared_ptr<KeptMessage> kept;  ///< null: the transport has it
};

/// A send or receive in flight. Small messages go at once; the sender of a large one offers it and waits
/// until the receiver says that it is ready, then both run an `Execution` of one step. Called with the baton,
/// except as `OperationState` says. Stays in place until `quiet` or until the transport was aborted.
class PeerOperation final : public OperationState {
 public:
  /// Larger messages are offered.
  static constexpr std::uint64_t kEagerBytes = 8192;

  explicit PeerOperation(const PeerCall& call) : call_(call) {}

  [[nodiscard]] const PeerCall& call() const noexcept { return call_; }
  [[nodiscard]] Rank source() const noexcept override { return source_; }
  [[nodiscard]] std::size_t received_bytes() const noexcept override { return received_bytes_; }
  [[nodiscard]] std::string describe() const override { return call_.describe(); }

  void begin_at(std::uint64_t sequence, Time now, std::chrono::milliseconds timeout) noexcept {
    begin(sequence, now, timeout);
  }
  /// Posts a send as message `number` of this pair.
  void post_send(Transport& transport, std::uint64_t number);
  /// Whether a receive may take `arrival`: it fits and has the same type. If not, `trouble` says why.
  bool accepts(const PeerArrival& arrival, Rank self);
  /// Takes an arrival that was accepted.
  void post_receive(Transport& transport, PeerPlans& plans, const PeerArrival& arrival);
  /// Goes on; true when anything moved. At the first failure `trouble` says what happened.
  bool advance(Transport& transport, PeerPlans& plans);
  void fail(const Status& why) { finish(why); }

  /// Whether a message of it has been posted or arrived.
  [[nodiscard]] bool matched() const noexcept { return stage_ == Stage::posted || stage_ == Stage::moving; }
  /// Whether it is a receive of a large message that has come.
  [[nodiscard]] bool receives_large() const noexcept { return !call_.sends && stage_ == Stage::moving; }
  [[nodiscard]] const Status& trouble() const noexcept { return trouble_; }

 private:
  enum class Stage : std::uint8_t {
    waiting,  ///< a receive for its message
    offered,  ///< a large send for its receive
    posted,   ///< a small message is on its way
    moving,   ///< a large one is
  };

  void start_moving(Transport& transport, PeerPlans& plans);
  [[nodiscard]] bool take_kept();
  bool note(const Completion& completion);
  void note(const Status& status);

  const PeerCall call_;
  Stage stage_ = Stage::waiting;
  PeerMessage message_;
  Rank source_;
  std::size_t received_bytes_ = 0;
  Completion head_;   // the small message itself, or the offer
  Completion ready_;  // the answer to an offer
  std::shared_ptr<KeptMessage> kept_;
  std::unique_ptr<Execution> data_;
  Status trouble_;
};

}  // namespace ucxring
