// A simulated network in virtual time: thousands of ranks in one thread, the same run from the same seed.
#pragma once

#include <memory>

#include "transport/transport.hpp"

namespace ucxring::sim {

/// What the network is like. All ranks are alike until `World::slow` says otherwise.
struct Options {
  int world_size = 2;
  int ranks_per_host = 1;  ///< consecutive ranks share a host and its one NIC
  Duration latency =
      std::chrono::microseconds(10);  ///< between hosts, from the sender's NIC to the receiver's
  double bandwidth = 1.25e9;          ///< bytes/s of a NIC, each direction
  Duration host_latency =
      std::chrono::nanoseconds(500);  ///< between ranks of one host, and of a rank to itself
  double host_bandwidth = 5e9;        ///< bytes/s at which one rank copies to the ranks of its host
  Duration overhead = std::chrono::nanoseconds(200);  ///< a rank's own time for each message it sends
  Duration jitter{0};                                 ///< each message is late by a random time below this
  bool reorder = false;    ///< messages may overtake others of the same pair; control messages never do
  std::uint64_t seed = 1;  ///< of jitter
  std::size_t eager_bytes = 8192;  ///< larger messages ask first (rendezvous) and complete when delivered
};

/// What one rank has sent so far.
struct Counters {
  std::uint64_t messages = 0;  ///< without control messages
  std::uint64_t bytes = 0;     ///< payload of those messages
};

/// The network and the one context of all its ranks. Single-threaded. Time starts at `Time{}` and only moves
/// in `progress()` (to the next event) and `skip_to()`.
///
/// A message of n bytes posted at t leaves its rank at max(t, the rank's earlier messages) + overhead.
/// Between hosts it then takes n / bandwidth in the sender's NIC, one after the other; its first byte reaches
/// the receiver's NIC one latency after it left, where it again takes n / bandwidth after the messages before
/// it. An idle network thus delivers after overhead + latency + n / bandwidth (LogGP: Alexandrov et al.,
/// 1995, with full overlap in the switch). Inside a host it takes n / host_bandwidth of the sending rank,
/// then host_latency. A rendezvous message sends an empty request first; when that has met its receive an
/// answer comes back, one latency later, and then the message leaves.
class World : public Context {
 public:
  /// From `at` on (at once if that is past) `rank` is dead: what it posted fails, its peers get `peer_lost`
  /// one latency later, what it sent and has not arrived by then is lost.
  virtual void kill(Rank rank, Time at) = 0;
  /// From `at` on messages to and from `rank` are held for ever, without an error: a stopped process.
  virtual void stop(Rank rank, Time at) = 0;
  /// `rank` needs `factor` (> 0) times as long for overhead, copies and its NIC, from now on.
  virtual void slow(Rank rank, double factor) = 0;

  [[nodiscard]] virtual int world_size() const noexcept = 0;
  [[nodiscard]] virtual const Counters& counters(Rank rank) const = 0;
  /// Virtual time since the beginning.
  [[nodiscard]] Duration elapsed() const noexcept { return now() - Time{}; }

  [[nodiscard]] bool arm() final { return true; }
  [[nodiscard]] int event_fd() const noexcept final { return -1; }
};

/// Throws `Error` (invalid_argument) when an option makes no sense.
[[nodiscard]] std::shared_ptr<World> make_world(const Options& options);

/// Joins `world` as `rank`; at most once per rank, before anything is sent to it. A rank that aborts or goes
/// away fails what its peers have posted to it, one latency later; they hear of it as of a lost peer only if
/// something was. Throws `Error` (invalid_argument) when the rank is out of range or taken.
[[nodiscard]] std::unique_ptr<Transport> create(const std::shared_ptr<World>& world, Rank rank);

}  // namespace ucxring::sim
