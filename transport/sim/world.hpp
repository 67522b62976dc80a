// The event queue of a simulated network.
#pragma once

#include <queue>
#include <vector>

#include "transport/sim/network.hpp"
#include "transport/sim/sim.hpp"

namespace ucxring::sim {

class SimTransport;

/// Something that happens at one moment at rank `to`.
struct Event {
  enum class Kind : std::uint8_t {
    eager,    ///< a message with its bytes in `copy`
    request,  ///< a rendezvous message is offered: number `send` of its sender
    answer,   ///< `from` wants the bytes of message `send`
    data,     ///< the bytes of message `send` are there
    control,  ///< a control message in `copy`
    left,     ///< `from` aborted or went away, says `status`
    lost,     ///< `from` died, says `status`
    kill,     ///< `to` dies
    stop,     ///< `to` stops
  };
  Kind kind = Kind::eager;
  Rank from;
  Rank to;
  Tag tag;
  Stamp stamp = 0;
  std::size_t bytes = 0;
  std::uint64_t send = 0;
  std::vector<std::byte> copy{};
  Status status{};
};

class SimWorld final : public World {
 public:
  explicit SimWorld(const Options& options);

  bool progress() override;
  [[nodiscard]] Time now() const noexcept override { return now_; }
  bool skip_to(Time time) override;
  void kill(Rank rank, Time at) override;
  void stop(Rank rank, Time at) override;
  void slow(Rank rank, double factor) override;
  [[nodiscard]] int world_size() const noexcept override { return options_.world_size; }
  [[nodiscard]] const Counters& counters(Rank rank) const override;

  // For the transports.
  /// As `Transport::hosts()`.
  [[nodiscard]] std::vector<int> hosts() const;
  [[nodiscard]] std::size_t eager_bytes() const noexcept { return options_.eager_bytes; }
  /// Takes `rank`; throws when it is out of range or taken.
  void join(Rank rank, SimTransport& transport);
  void leave(Rank rank) noexcept;
  /// The transport of `rank`; null when there is none (any more).
  [[nodiscard]] SimTransport* transport(Rank rank) const { return members_[index(rank)].transport; }
  /// Counts a message.
  void count(Rank rank, std::size_t bytes);
  /// Sends an event from `event.from` to `event.to` with `wire_bytes` over the NICs.
  void send(Event event, std::size_t wire_bytes);
  /// Sends an event that needs no NIC.
  void send_small(Event event);
  /// Tells those `rank` had to do with that it went away.
  void farewell(Rank rank, const Status& why);
  /// Tells `to` that `from` went away, if it has, after everything that is on its way between them.
  void notify_if_left(Rank from, Rank to);

 private:
  struct Member {
    SimTransport* transport = nullptr;
    bool joined = false;
    bool dead = false;
    bool stopped = false;
    Status left;  // why it went away
    Counters counters;
  };
  struct Entry {
    Time at;
    std::uint64_t order;  // of events at the same time
    std::uint32_t slot;
    friend bool operator<(const Entry& a, const Entry& b) noexcept {  // the queue's top is the earliest
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };

  [[nodiscard]] static std::size_t index(Rank rank) noexcept { return static_cast<std::size_t>(rank.value); }
  void check(Rank rank) const;
  void schedule(Time at, Event event);
  void happen(Event& event);
  void die(Rank rank);
  void ship(Event& answer);

  Options options_;
  Network network_;
  Time now_{};
  std::vector<Member> members_;
  std::priority_queue<Entry> queue_;
  std::vector<Event> events_;  // slots of the queue's entries
  std::vector<std::uint32_t> free_;
  std::uint64_t next_order_ = 0;
};

}  // namespace ucxring::sim
