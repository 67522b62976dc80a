#include "collectives/timed_steps.hpp"

#include <algorithm>
#include <numeric>

#include "transport/base/error.hpp"

namespace ucxring {
namespace {

constexpr Ticks kMicrosecond = 1'000'000;

/// A turn on a core that ranks share: one finds that what it waits for has not come, and the scheduler goes
/// on to the next.
constexpr Ticks kTurn = kMicrosecond;

/// A rank that talks to more than a few others over the network has more connections to poll, each colder: so
/// many more partners double the overhead of a message.
constexpr Ticks kCrowdOverhead = 32;
constexpr Ticks kFewPartners = 4;
/// Messages of a rank that sends to several others and receives from several others at the same time collide
/// in the network, and while they wait for one link, others are idle: so many more double the time on the
/// wire.
constexpr Ticks kCollidingWire = 32;

/// An interface needs this fraction of a core's overhead for each message, however short.
constexpr Ticks kGap = 8;

/// Larger operations are reduced from memory, at a fraction of the rate from the cache.
constexpr std::size_t kCacheBytes = std::size_t{1} << 20U;
constexpr std::int64_t kMemorySlowdown = 24;

Ticks transfer_time(std::size_t bytes, std::int64_t bytes_per_us) noexcept {
  return bytes_per_us == 0 ? 0 : static_cast<Ticks>(bytes) * kMicrosecond / bytes_per_us;
}

/// Numbers messages in the order of their sends, rank by rank: the n-th send from one rank to another meets
/// the n-th receive there.
class Numbering {
 public:
  explicit Numbering(std::span<const Schedule> schedules)
      : begins_(schedules.size() + 1), cursors_(schedules.size()) {
    const auto for_each_send = [&](const auto& visit) {
      for (std::size_t from = 0; from < schedules.size(); ++from) {
        for (const Step& step : schedules[from].steps) {
          if (step.action == Action::send) visit(static_cast<int>(from), static_cast<std::size_t>(step.peer));
        }
      }
    };
    for_each_send([&](int, std::size_t to) { ++begins_[to + 1]; });
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    arriving_.resize(begins_.back());
    std::vector<std::size_t> ends(begins_.begin(), begins_.end() - 1);
    std::uint32_t number = 0;
    for_each_send([&](int from, std::size_t to) { arriving_[ends[to]++] = {from, number++}; });
  }
  [[nodiscard]] std::uint32_t messages() const noexcept {
    return static_cast<std::uint32_t>(arriving_.size());
  }

  /// Number of the next send of all.
  [[nodiscard]] std::uint32_t next_sent() noexcept { return sent_++; }

  /// Makes `rank` the receiver of `next_from`.
  void open(std::size_t rank) noexcept {
    end_ = begins_[rank + 1];
    for (std::size_t i = end_; i > begins_[rank]; --i) {
      cursors_[static_cast<std::size_t>(arriving_[i - 1].from)] = i - 1;
    }
  }
  [[nodiscard]] std::uint32_t next_from(int peer) {
    const std::size_t at = cursors_[static_cast<std::size_t>(peer)]++;
    if (at < end_ && arriving_[at].from == peer) return arriving_[at].number;
    throw Error(ErrorCode::internal, "a schedule receives a message that nobody sends");
  }

 private:
  struct Arriving {
    int from = kNobody;
    std::uint32_t number = 0;
  };
  std::vector<std::size_t> begins_;   // by receiver, into arriving_
  std::vector<Arriving> arriving_;    // by receiver, then by sender
  std::vector<std::size_t> cursors_;  // by sender, into the part of the open receiver
  std::size_t end_ = 0;               // of that part
  std::uint32_t sent_ = 0;
};

/// Slices in a message.
Ticks slices(ChunkRef chunk) noexcept { return chunk.space == Space::none ? 0 : chunk.chunks; }

/// Costs of single steps.
class Pricing {
 public:
  Pricing(const CostQuestion& question, const CostParameters& parameters, std::size_t slice_bytes)
      : question_(question),
        cores_per_host_(parameters.cores_per_host),
        near_latency_(parameters.near.latency_ns * kNanosecond) {
    const std::int64_t slowdown = question.bytes > kCacheBytes ? kMemorySlowdown : 1;
    reduce_ = transfer_time(slice_bytes, (parameters.reduce_bytes_per_us + slowdown - 1) / slowdown);
    copy_ = transfer_time(slice_bytes, parameters.near.send_bytes_per_us);
    wire_ = transfer_time(slice_bytes, parameters.far.wire_bytes_per_us);
    near_ = LinkTimes(parameters.near, slice_bytes);
    far_ = LinkTimes(parameters.far, slice_bytes);
    for (std::size_t rank = 0; rank < question.schedules.size(); ++rank) {
      const auto host = static_cast<std::size_t>(host_of(static_cast<int>(rank)));
      if (host >= ranks_on_host_.size()) ranks_on_host_.resize(host + 1);
      ++ranks_on_host_[host];
    }
  }

  /// From the end of a send inside the host of `rank` to the receiver's first instruction. Where ranks share
  /// cores, the receiver's turn must come first.
  [[nodiscard]] Ticks near_latency(int rank) const noexcept {
    const Ticks ranks = ranks_on_host_[static_cast<std::size_t>(host_of(rank))];
    const Ticks cores = cores_per_host_;
    const Ticks turns = cores == 0 || ranks <= cores ? 0 : (ranks + cores - 1) / cores;
    return near_latency_ + turns * kTurn;
  }

  [[nodiscard]] int host_of(int rank) const noexcept {
    return question_.hosts.empty() ? rank : question_.hosts[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] std::vector<TimedStep> price(int rank, Numbering& numbering) const {
    const Schedule& schedule = question_.schedules[static_cast<std::size_t>(rank)];
    const Ticks crowd = crowd_of(rank, schedule);
    const Ticks colliding = colliding_of(rank, schedule);
    const Ticks far_overhead = far_.overhead * (kCrowdOverhead + crowd) / kCrowdOverhead;
    const Step* published = nullptr;  // whose chunk this run of sends has written for the host
    bool folds = false;               // the step before has read a message where it lies
    std::vector<TimedStep> timed;
    timed.reserve(schedule.steps.size());
    for (const Step& step : schedule.steps) {
      TimedStep& own = timed.emplace_back();
      if (step.action == Action::local) {
        own.core = local_time(step, folds);
      } else {
        own.receives = step.action == Action::receive;
        own.peer = step.peer;
        own.near = host_of(step.peer) == host_of(rank);
        own.message = own.receives ? numbering.next_from(step.peer) : numbering.next_sent();
        own.core = message_time(step, own.near, far_overhead);
      }
      if (step.action != Action::send) {
        published = nullptr;
      } else if (!own.near) {
        own.wire = wire_time(step, colliding);
      } else if (published != nullptr && published->source == step.source) {
        own.core = 0;
      } else {
        published = &step;
      }
      folds = own.receives && own.near;
      own.core = shared(own.core, rank);
    }
    return timed;
  }

 private:
  /// A core's times for messages of one class of links.
  struct LinkTimes {
    Ticks overhead = 0;
    Ticks send = 0;     // of the bytes
    Ticks receive = 0;  // likewise
    LinkTimes() noexcept = default;
    LinkTimes(const LinkParameters& link, std::size_t bytes) noexcept
        : overhead(link.overhead_ns * kNanosecond),
          send(transfer_time(bytes, link.send_bytes_per_us)),
          receive(transfer_time(bytes, link.receive_bytes_per_us)) {}
  };

  /// How many ranks of other hosts `rank` exchanges messages with, beyond a few.
  [[nodiscard]] Ticks crowd_of(int rank, const Schedule& schedule) const {
    std::vector<char> met(question_.schedules.size(), 0);
    Ticks partners = 0;
    for (const Step& step : schedule.steps) {
      if (step.peer == kNobody || host_of(step.peer) == host_of(rank)) continue;
      char& seen = met[static_cast<std::size_t>(step.peer)];
      if (seen == 0) ++partners;
      seen = 1;
    }
    return std::max<Ticks>(partners - kFewPartners, 0);
  }
  /// How many more messages than one `rank` both sends to other hosts and receives from them at a time: of
  /// each kind, as many as follow each other without one of the other kind between.
  [[nodiscard]] Ticks colliding_of(int rank, const Schedule& schedule) const noexcept {
    Ticks longest_sends = 0;
    Ticks longest_receives = 0;
    Ticks sends = 0;
    Ticks receives = 0;
    for (const Step& step : schedule.steps) {
      if (step.peer == kNobody || host_of(step.peer) == host_of(rank)) continue;
      const bool is_send = step.action == Action::send;
      sends = is_send ? sends + 1 : 0;
      receives = is_send ? 0 : receives + 1;
      longest_sends = std::max(longest_sends, sends);
      longest_receives = std::max(longest_receives, receives);
    }
    return std::max<Ticks>(std::min(longest_sends, longest_receives) - 1, 0);
  }
  [[nodiscard]] Ticks wire_time(const Step& step, Ticks colliding) const noexcept {
    const Ticks wire = slices(step.source) * wire_;
    return far_.overhead / kGap + wire * (kCollidingWire + colliding) / kCollidingWire;
  }
  [[nodiscard]] Ticks reduce_time(const Step& step) const noexcept {
    return step.combine == Combine::copy ? 0 : reduce_;
  }
  [[nodiscard]] Ticks local_time(const Step& step, bool folds) const noexcept {
    // Operations work in place as a rule, and then this is no copy.
    const bool result = step.source.space == Space::input && step.target.space == Space::output;
    if (result && step.combine == Combine::copy) return 0;
    // A fold of messages and own chunks in shared memory makes one pass.
    return (folds ? 0 : copy_) + reduce_time(step);
  }
  [[nodiscard]] Ticks message_time(const Step& step, bool near, Ticks far_overhead) const noexcept {
    const LinkTimes& link = near ? near_ : far_;
    const Ticks overhead = near ? link.overhead : far_overhead;
    if (step.action == Action::send) return overhead + slices(step.source) * link.send;
    return overhead + slices(step.target) * link.receive + reduce_time(step);
  }
  /// A core's time where ranks share the cores of their host.
  [[nodiscard]] Ticks shared(Ticks time, int rank) const noexcept {
    const Ticks ranks = ranks_on_host_[static_cast<std::size_t>(host_of(rank))];
    const Ticks cores = cores_per_host_;
    return cores == 0 || ranks <= cores ? time : time * ranks / cores;
  }

  const CostQuestion& question_;
  Ticks cores_per_host_;
  Ticks near_latency_;
  LinkTimes near_;
  LinkTimes far_;
  Ticks reduce_ = 0;
  Ticks copy_ = 0;
  Ticks wire_ = 0;
  std::vector<int> ranks_on_host_;
};

}  // namespace

TimedSchedules time_steps(const CostQuestion& question, const CostParameters& parameters,
                          std::size_t slice_bytes) {
  Numbering numbering(question.schedules);
  const Pricing pricing(question, parameters, slice_bytes);
  TimedSchedules steps;
  steps.messages = numbering.messages();
  for (std::size_t rank = 0; rank < question.schedules.size(); ++rank) {
    numbering.open(rank);
    steps.hosts.push_back(pricing.host_of(static_cast<int>(rank)));
    steps.near_latency.push_back(pricing.near_latency(static_cast<int>(rank)));
    steps.ranks.push_back(pricing.price(static_cast<int>(rank), numbering));
  }
  return steps;
}

}  // namespace ucxring
