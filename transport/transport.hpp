// The transport interface: bytes between two ranks. Three classes: a Context is polled, a Transport is one
// rank's membership in one group on it, an Endpoint is the way to one peer. None of them knows that
// collectives exist.
#pragma once

#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/shared_memory.hpp"
#include "transport/types.hpp"

namespace ucxring {

/// What a process polls: a UCX worker, a loopback hub, a simulated network. One context serves many groups.
/// Thread rule for everything in this file: one thread at a time drives a context and calls its transports
/// and endpoints; the collectives layer's engine hands that right around. Nothing here locks on the data
/// path.
class Context {
 public:
  virtual ~Context() = default;

  /// Polls once without blocking; true when anything moved.
  virtual bool progress() = 0;

  /// Prepares to sleep on `event_fd()`. False when events are already there: call `progress()` instead.
  [[nodiscard]] virtual bool arm() = 0;

  /// Descriptor that becomes readable after `arm()` returned true and something happened; -1 when there is
  /// none (a simulated network, which never sleeps).
  [[nodiscard]] virtual int event_fd() const noexcept = 0;

  /// Current time: the steady clock, or virtual time.
  [[nodiscard]] virtual Time now() const noexcept { return std::chrono::steady_clock::now(); }

  /// Moves virtual time on to `time` when no event is left before it; false where time passes by itself.
  virtual bool skip_to(Time /*time*/) { return false; }
};

/// Receiver of what a transport learns outside of posted operations. Called from `Context::progress()` and
/// `Transport::set_listener`; it may post and send, and must not block.
class Listener {
 public:
  virtual ~Listener() = default;
  /// A message arrived for which no receive is posted yet. The transport keeps it until one is.
  virtual void on_unexpected(Rank peer, Tag tag, Stamp stamp) = 0;
  /// A control message, readable during the call.
  virtual void on_control(Rank peer, std::span<const std::byte> message) = 0;
  /// The connection to `peer` broke; everything posted to it has failed or will in this call.
  virtual void on_peer_lost(Rank peer, const Status& why) = 0;
  /// `peer` has left the group in good order and sends nothing more; what it sent before has arrived and can
  /// be received. Follows `on_peer_lost` where anything was posted to it. Heard only by those who have had to
  /// do with the peer.
  virtual void on_peer_left(Rank /*peer*/, const Status& /*why*/) {}
  /// Whether this process waits for anything. If so, whatever a sender without room has sent is set aside,
  /// since it may hold up what is waited for; else only so much, and then the sender has to wait until it is
  /// asked for.
  [[nodiscard]] virtual bool waits() const { return true; }
};

/// The way to one peer. Posts never block. A post that fails at once returns the failure and leaves `done`
/// idle; otherwise `done` finishes later, inside `Context::progress()` or already inside the call.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  /// Sends `data`; it must stay unchanged until `done` finished. Zero bytes are a message like any other.
  virtual Status send(ConstBuffer data, Tag tag, Stamp stamp, Completion& done) = 0;

  /// Receives the message `tag` into `target`. A message of another size or stamp completes `done` with
  /// `mismatch` and writes nothing.
  virtual Status receive_into(Buffer target, Tag tag, Stamp stamp, Completion& done) = 0;

  /// Receives the message `tag` of exactly `bytes` bytes by giving them to `sink` where they lie.
  virtual Status receive_apply(Sink sink, std::size_t bytes, Tag tag, Stamp stamp, Completion& done) = 0;

  /// Sends a control message (at most `kMaxControlBytes`), copied, unacknowledged, in order with other
  /// control messages to this peer. Failures surface through `Listener::on_peer_lost`.
  static constexpr std::size_t kMaxControlBytes = 4096;
  virtual void send_control(std::span<const std::byte> message) = 0;
};

/// One rank's membership in one group.
class Transport {
 public:
  virtual ~Transport() = default;  ///< implies `abort()`

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;  ///< "ucx", "loopback", …
  [[nodiscard]] virtual Rank rank() const noexcept = 0;
  [[nodiscard]] virtual int world_size() const noexcept = 0;
  [[nodiscard]] virtual const std::shared_ptr<Context>& context() const noexcept = 0;

  /// The endpoint to `peer` (also to this rank itself), made on first use. Throws `Error` when `peer` is out
  /// of range.
  virtual Endpoint& endpoint(Rank peer) = 0;

  /// For each rank the number of its host: ranks with equal numbers share memory. Numbers count from 0 in
  /// order of first appearance and are the same on every rank. Without shared memory every rank is its own
  /// host.
  [[nodiscard]] virtual std::vector<int> hosts() const {
    std::vector<int> alone(static_cast<std::size_t>(world_size()));
    std::iota(alone.begin(), alone.end(), 0);
    return alone;
  }

  /// Direct access to the messages of ranks on this host; null when there is none. Lives as long as this.
  [[nodiscard]] virtual SharedMemory* shared_memory() noexcept { return nullptr; }

  /// Who hears of unexpected messages, control messages and lost peers; null to hear nothing. Not owned. The
  /// first one is told, inside this call, what came before it: peers send as soon as they have joined, and
  /// another group may have the context polled. An unexpected message may have been received meanwhile.
  virtual void set_listener(Listener* listener) = 0;

  /// Fails everything posted with `why`. When it returns no transfer touches a buffer of the caller any more.
  /// Control messages already sent are still delivered where the peer lives. Idempotent; later posts fail
  /// with `why`.
  virtual void abort(const Status& why) noexcept = 0;

  /// True when all bytes sent have left this process, so that it may exit without loss.
  [[nodiscard]] virtual bool flushed() const noexcept = 0;

  /// Whether any completion finished or any listener call was made since the last call. Lets a caller with
  /// many groups on one context look only at those that moved.
  [[nodiscard]] virtual bool take_activity() noexcept { return std::exchange(activity_, false); }

 protected:
  bool activity_ = false;  ///< set by implementations with each finished completion and listener call
};

}  // namespace ucxring
