// Loopback: the ranks of a group are threads, or plain objects, of one process. Reference of the conformance
// tests.
#pragma once

#include <memory>
#include <vector>

#include "transport/transport.hpp"

namespace ucxring::loopback {

/// Messages of at most this many bytes are copied by the sender and complete at once (eager); larger ones are
/// read by the receiver where they lie (rendezvous).
inline constexpr std::size_t kEagerBytes = 4096;

/// Where the ranks of one group meet. Thread-safe. Lives as long as a transport on it.
class Hub {
 public:
  virtual ~Hub() = default;
  [[nodiscard]] virtual int world_size() const noexcept = 0;

  /// Makes `rank` die, for tests: whatever it had posted fails at its next progress; its peers drop what it
  /// sent and get `Listener::on_peer_lost` with `peer_lost`. When this returns the rank touches no buffer of
  /// a peer any more. From any thread; idempotent. Throws `Error` when `rank` is out of range.
  virtual void kill(Rank rank) = 0;
};

/// `hosts` is what `Transport::hosts()` tells the ranks; empty: every rank is its own host. Throws `Error`
/// (invalid_argument) when `world_size` is below 1, or `hosts` is not a host for each rank.
[[nodiscard]] std::shared_ptr<Hub> make_hub(int world_size, std::vector<int> hosts = {});

/// Joins `hub` as `rank`; at most once per rank, at any time (messages sent before wait). The transport has a
/// context of its own, so that each rank may be driven by a thread of its own or all by one. A rank that
/// aborts or goes away fails what its peers have posted to it; they hear of it as of a lost peer only if
/// something was. Throws `Error` (invalid_argument) when the rank is out of range or taken.
[[nodiscard]] std::unique_ptr<Transport> create(std::shared_ptr<Hub> hub, Rank rank);

}  // namespace ucxring::loopback
