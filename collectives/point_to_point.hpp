// Messages between pairs of ranks of a group: sends meet receives.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/peer_operation.hpp"

namespace ucxring {

/// One rank's sends and receives. Messages of one sender with one tag are received in the order they were
/// sent, and receives take messages in the order the receives were posted; nothing else is ordered. Costs
/// nothing as long as nobody sends. Called with the baton.
class PointToPoint {
 public:
  /// Both outlive this.
  PointToPoint(Transport& transport, const Config& config) : transport_(transport), config_(config) {}

  void start(std::shared_ptr<PeerOperation> operation);
  /// As `Listener::on_unexpected`, for a tag of which `PeerMessage::is` holds.
  void arrived(Rank peer, Tag tag, Stamp stamp);
  /// As `Listener::on_peer_left`.
  void left(Rank peer, const Status& why) {
    peers_[peer.value].gone = why;
    some_are_gone_ = true;
  }

  /// Matches and moves what can; true when anything did.
  bool advance() { return quiet() ? false : advance_all(); }
  /// The first failure; ok while there is none.
  [[nodiscard]] const Status& trouble() const noexcept { return trouble_; }
  /// Ends everything. The transport must have been aborted.
  void fail(const Status& why);

  /// Whether any operation is in flight.
  [[nodiscard]] bool busy() const noexcept { return !posted_.empty() || !claimed_.empty() || waiting_ > 0; }
  /// Whether one is that may end without a further call of this rank.
  [[nodiscard]] bool moving() const noexcept { return !posted_.empty() || !claimed_.empty(); }
  /// Not after the first deadline of an operation in flight.
  [[nodiscard]] Time next_deadline() const noexcept { return busy() ? next_deadline_ : Time::max(); }
  /// Says which operation has passed its deadline, and why it is not done; ok when none has.
  [[nodiscard]] Status late(Time now);

 private:
  using Operation = std::shared_ptr<PeerOperation>;
  struct Peer {
    std::uint64_t sent = 0;                      ///< messages to it
    std::uint64_t arrived = 0;                   ///< messages from it, all before included
    std::map<std::uint64_t, PeerArrival> early;  ///< by number: messages that have overtaken others
    std::size_t unclaimed = 0;                   ///< of those that arrived, in the transport
    bool greeted = false;
    Status gone;  ///< why it will send nothing more; ok while it may
  };
  /// Large receives that move at the same time: each keeps memory of its sender busy.
  static constexpr std::size_t kMostMoving = 8;
  /// Unclaimed messages of one peer that stay in the transport. More are taken out of it, lest they use up
  /// the room that other messages of the peer need.
  static constexpr std::size_t kMostUnclaimed = 32;

  [[nodiscard]] bool quiet() const noexcept { return !busy() && arrivals_.empty(); }
  bool advance_all();
  void receive(Operation operation);
  void greet(Rank peer);
  bool match(const PeerArrival& arrival);
  void keep(PeerArrival arrival);
  void claim(Operation operation, const PeerArrival& arrival);
  void take_claimed();
  void look_for_the_gone();
  [[nodiscard]] const Status& gone(const PeerCall& call);
  void note(const Status& status);
  [[nodiscard]] PeerPlans& plans();
  [[nodiscard]] std::string why_late(const PeerOperation& operation) const;
  [[nodiscard]] std::string unclaimed_tags(const PeerCall& call) const;
  template <typename Visit>
  void for_each(Visit visit) const;

  Transport& transport_;
  const Config& config_;
  std::optional<PeerPlans> plans_;
  std::unordered_map<int, Peer> peers_;
  bool greeted_all_ = false;
  bool some_are_gone_ = false;
  std::deque<PeerArrival> arrivals_;                                     // in order, not yet matched
  std::unordered_map<std::int32_t, std::deque<PeerArrival>> unclaimed_;  // by the user's tag, oldest first
  std::unordered_map<std::int32_t, std::deque<Operation>> receives_;     // likewise, waiting for a message
  std::size_t waiting_ = 0;                                              // in receives_
  std::deque<std::pair<Operation, PeerArrival>> claimed_;                // large, while others move
  std::vector<Operation> posted_;
  std::size_t moving_receives_ = 0;  // large ones in posted_
  Time next_deadline_ = Time::max();
  Status trouble_;
  const Status ok_;
};

}  // namespace ucxring
