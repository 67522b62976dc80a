#include "collectives/cost_model.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "collectives/timed_steps.hpp"
#include "transport/base/error.hpp"

namespace ucxring {
namespace {

constexpr Ticks kNotSent = -1;

/// One slice on its way through all schedules.
class Walk {
 public:
  Walk(const TimedSchedules& steps, Ticks far_latency)
      : steps_(steps),
        far_latency_(far_latency),
        arrivals_(steps.messages, kNotSent),
        waiters_(steps.messages, kNobody),
        under_way_(steps.messages),
        ranks_(steps.ranks.size()),
        hosts_(static_cast<std::size_t>(*std::max_element(steps.hosts.begin(), steps.hosts.end())) + 1) {}

  /// Runs to the end; returns the time of the last rank.
  Ticks run() {
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) enqueue(rank);
    while (!queue_.empty()) {
      const Event event = queue_.top();
      queue_.pop();
      if (event.what >= 0) {
        follow(static_cast<int>(event.what));
      } else {
        enter_host(static_cast<std::uint32_t>(~event.what), event.at);
      }
    }
    Ticks end = 0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].next != steps_.ranks[rank].size()) {
        throw Error(ErrorCode::internal, "schedules wait for each other");
      }
      end = std::max(end, ranks_[rank].clock);
    }
    return end;
  }

  /// After `run`: the distance at which further slices follow when `window` of them are in flight.
  [[nodiscard]] Ticks period(int window) const {
    Ticks longest = 1;
    for (const RankState& rank : ranks_) {
      longest = std::max({longest, rank.busy, (rank.clock - rank.start) / window});
    }
    for (const Interface& host : hosts_) longest = std::max({longest, host.sending, host.receiving});
    return longest;
  }

 private:
  /// A rank can go on, or a message comes to the host of its receiver. Ordered by time, the rest only so that
  /// the order is the same everywhere.
  struct Event {
    Ticks at = 0;
    std::int64_t what = 0;  // a rank, or ~ the number of a message
    friend bool operator>(const Event& a, const Event& b) noexcept {
      return a.at != b.at ? a.at > b.at : a.what > b.what;
    }
  };
  /// A message between hosts.
  struct UnderWay {
    int receiver = kNobody;
    Ticks wire = 0;
  };
  struct RankState {
    std::size_t next = 0;  // step
    Ticks clock = 0;
    Ticks start = 0;  // when its first step could be made
    Ticks busy = 0;   // time of its core
  };
  /// A host's network interface: when each direction is free, and how long it was in use.
  struct Interface {
    Ticks send_free = 0;
    Ticks receive_free = 0;
    Ticks sending = 0;
    Ticks receiving = 0;
  };

  [[nodiscard]] RankState& state(int rank) noexcept { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::vector<TimedStep>& steps_of(int rank) const noexcept {
    return steps_.ranks[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] Interface& interface_of(int rank) noexcept {
    return hosts_[static_cast<std::size_t>(steps_.hosts[static_cast<std::size_t>(rank)])];
  }

  /// When `rank`, whose clock shows `clock`, can make `step`; `kNotSent` while it waits for a message.
  [[nodiscard]] Ticks ready_at(Ticks clock, const TimedStep& step) const noexcept {
    if (!step.receives) return clock;
    const Ticks arrival = arrivals_[step.message];
    return arrival == kNotSent ? kNotSent : std::max(clock, arrival);
  }

  void enqueue(int rank) {
    const RankState& own = state(rank);
    if (own.next == steps_of(rank).size()) return;
    const TimedStep& step = steps_of(rank)[own.next];
    const Ticks ready = ready_at(own.clock, step);
    if (ready == kNotSent) {
      waiters_[step.message] = rank;
    } else {
      queue_.push({ready, rank});
    }
  }

  /// Makes the steps of `rank` for as long as it is the earliest of all.
  void follow(int rank) {
    const auto& steps = steps_of(rank);
    RankState& own = state(rank);
    for (;;) {
      make(steps[own.next], rank, own);
      if (own.next == steps.size()) return;
      const Ticks ready = ready_at(own.clock, steps[own.next]);
      if (ready == kNotSent || (!queue_.empty() && ready > queue_.top().at)) return enqueue(rank);
    }
  }

  void make(const TimedStep& step, int rank, RankState& own) {
    const Ticks begin = ready_at(own.clock, step);
    if (own.next++ == 0) own.start = begin;
    own.clock = begin + step.core;
    own.busy += step.core;
    if (step.peer == kNobody || step.receives) return;
    if (step.near) {
      arrive(step.message, own.clock + steps_.near_latency[static_cast<std::size_t>(rank)]);
    } else {
      leave_host(interface_of(rank), step, own.clock);
    }
  }

  void leave_host(Interface& from, const TimedStep& step, Ticks at) {
    const Ticks first_byte = std::max(at, from.send_free);
    from.send_free = first_byte + step.wire;
    from.sending += step.wire;
    under_way_[step.message] = {step.peer, step.wire};
    queue_.push({first_byte + far_latency_, ~std::int64_t{step.message}});
  }

  /// The first byte of a message reaches the interface of its receiver, which serves messages in this order.
  void enter_host(std::uint32_t message, Ticks at) {
    const auto [receiver, wire] = under_way_[message];
    Interface& to = interface_of(receiver);
    to.receive_free = std::max(at, to.receive_free) + wire;
    to.receiving += wire;
    arrive(message, to.receive_free);
  }

  void arrive(std::uint32_t message, Ticks at) {
    arrivals_[message] = at;
    const int waiter = std::exchange(waiters_[message], kNobody);
    if (waiter != kNobody) enqueue(waiter);
  }

  const TimedSchedules& steps_;
  Ticks far_latency_;
  std::vector<Ticks> arrivals_;      // by message
  std::vector<int> waiters_;         // by message
  std::vector<UnderWay> under_way_;  // by message
  std::vector<RankState> ranks_;
  std::vector<Interface> hosts_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
};

}  // namespace

std::size_t chunk_bytes_of(const Schedule& schedule, std::size_t bytes) noexcept {
  const auto chunks = static_cast<std::size_t>(std::max({schedule.input_chunks, schedule.output_chunks, 1}));
  return (bytes + chunks - 1) / chunks;
}

Cost predict(const CostQuestion& question, const CostParameters& parameters) {
  const std::size_t chunk = chunk_bytes_of(question.schedules.front(), question.bytes);
  const Slicing slicing =
      slice_chunks(chunk, any_share(question.hosts), question.config, question.schedules.front().widest);
  const std::size_t slice = std::min(chunk, slicing.slice_bytes);
  const TimedSchedules steps = time_steps(question, parameters, slice);
  Walk walk(steps, parameters.far.latency_ns * kNanosecond);
  const Ticks first = walk.run();
  if (slicing.lanes == 1) return Cost(first);
  const Ticks period = walk.period(slicing.window);
  const std::size_t rest = chunk - slice;
  constexpr Ticks kScale = 1024;  // keeps products in range; slices of several lanes are longer
  const Ticks last =
      static_cast<Ticks>(rest % slice) * (period / kScale) / (static_cast<Ticks>(slice) / kScale);
  return Cost(first + static_cast<Ticks>(rest / slice) * period + last);
}

}  // namespace ucxring
