#include "collectives/probe.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "collectives/reduce/table.hpp"
#include "transport/base/log.hpp"
#include "transport/base/process.hpp"

namespace ucxring {
namespace {

constexpr std::int64_t kTrusted = 8;          // measurements count within this factor of the defaults …
constexpr std::int64_t kTrustedNetwork = 32;  // … those of a network's rate within this one
// Who is to answer rank 0, as it publishes them.
constexpr std::string_view kNear = "near ";
constexpr std::string_view kFar = "far ";

std::int64_t within(std::int64_t value, std::int64_t middle, std::int64_t factor) noexcept {
  return std::clamp<std::int64_t>(value, std::max<std::int64_t>(middle / factor, 1), middle * factor);
}

/// `value` × `measured` / `expected`, as far as that is to be trusted.
std::int64_t scaled(std::int64_t value, std::int64_t measured, std::int64_t expected) noexcept {
  return value == 0 ? 0 : within(value * measured / std::max<std::int64_t>(expected, 1), value, kTrusted);
}

void refine_latency(LinkParameters& link, std::int64_t measured_ns) {
  const std::int64_t expected = link.latency_ns + 2 * link.overhead_ns;
  link.latency_ns = scaled(link.latency_ns, measured_ns, expected);
  link.overhead_ns = scaled(link.overhead_ns, measured_ns, expected);
}

/// Bytes per µs that a reduction of float32 from the cache takes beyond a copy, best of a few.
std::int64_t measure_reduction() {
  constexpr std::size_t kBytes = std::size_t{128} << 10U;
  constexpr int kTrials = 8;
  const auto combine = find_reduction(DataType::float32, ReduceOp::sum).combine;
  std::vector<std::byte> left(kBytes);
  std::vector<std::byte> right(kBytes);
  const auto best = [](const auto& work) {
    auto least = Duration::max();
    for (int i = 0; i < kTrials; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      work();
      least = std::min(least, std::chrono::steady_clock::now() - begin);
    }
    return least;
  };
  const auto copy = best([&] { std::memcpy(left.data(), right.data(), kBytes); });
  const auto reduce = best([&] { combine(left.data(), left.data(), right.data(), kBytes / sizeof(float)); });
  const auto beyond = std::chrono::duration_cast<std::chrono::nanoseconds>(reduce - copy).count();
  return static_cast<std::int64_t>(kBytes) * 1'000 / std::max<std::int64_t>(beyond, 1);
}

/// Once per process.
std::int64_t reduction_rate() {
  static const std::int64_t rate = measure_reduction();
  return rate;
}

/// What the ranks of this host have together, where they know of each other.
int available_cores(Transport& transport) noexcept {
  if (const SharedMemory* const shared = transport.shared_memory()) return shared->cores();
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 0;
}

/// Whom rank 0 measures with, −1 for nobody.
struct Partners {
  int near = -1;
  int far = -1;

  explicit Partners(const std::vector<int>& hosts) {
    for (int rank = static_cast<int>(hosts.size()) - 1; rank > 0; --rank) {
      (hosts[static_cast<std::size_t>(rank)] == hosts[0] ? near : far) = rank;
    }
  }
};

Store::Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const Store::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What rank 0 publishes as `what`.
std::string hear(Store& store, const std::string& prefix, std::string_view what, int rank,
                 std::chrono::milliseconds timeout) {
  try {
    return text_of(store.get(fmt::format("{}{}", prefix, what), timeout));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::timeout) throw;
  }
  throw Error(
      ErrorCode::timeout,
      fmt::format("rank 0 has joined the group, but has not told rank {} within {:.3g} s how fast its links "
                  "are (step {}{}): look at what rank 0 does, or raise the timeout",
                  rank, static_cast<double>(timeout.count()) / 1000.0, prefix, what),
      0);
}

}  // namespace

std::optional<LinkMeasurement> ProbeCache::find(std::string_view transport, Link link) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find({std::string(transport), link});
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

void ProbeCache::keep(std::string_view transport, Link link, const LinkMeasurement& measured) {
  const std::lock_guard lock(mutex_);
  known_.insert_or_assign({std::string(transport), link}, measured);
}

ProbeCache& ProbeCache::process() {
  static PerProcess<ProbeCache> caches;
  return caches.get();
}

CostParameters refined(const CostParameters& defaults, const std::optional<LinkMeasurement>& near,
                       const std::optional<LinkMeasurement>& far, std::int64_t reduce_bytes_per_us) {
  CostParameters result = defaults;
  if (near) {
    refine_latency(result.near, near->latency_ns);
    LinkParameters& link = result.near;
    // A core that copies in and out takes turns.
    const std::int64_t sum = link.send_bytes_per_us + link.receive_bytes_per_us;
    const std::int64_t expected =
        link.send_bytes_per_us * link.receive_bytes_per_us / std::max<std::int64_t>(sum, 1);
    link.send_bytes_per_us = scaled(link.send_bytes_per_us, near->bytes_per_us, expected);
    link.receive_bytes_per_us = scaled(link.receive_bytes_per_us, near->bytes_per_us, expected);
  }
  if (far) {
    refine_latency(result.far, far->latency_ns);
    LinkParameters& link = result.far;
    link.wire_bytes_per_us = within(far->bytes_per_us, link.wire_bytes_per_us, kTrustedNetwork);
    // Cores kept up with that, each sending and receiving.
    const auto at_least = [&](std::int64_t rate) {
      return rate == 0 ? 0 : within(std::max(rate, 2 * far->bytes_per_us), rate, kTrusted);
    };
    link.send_bytes_per_us = at_least(link.send_bytes_per_us);
    link.receive_bytes_per_us = at_least(link.receive_bytes_per_us);
  }
  if (reduce_bytes_per_us > 0) {
    result.reduce_bytes_per_us = within(reduce_bytes_per_us, defaults.reduce_bytes_per_us, kTrusted);
  }
  return result;
}

CostParameters Probe::agree(Store& store, const CostParameters& defaults, bool measures,
                            std::chrono::milliseconds timeout) {
  if (transport_.world_size() == 1) return defaults;
  const int rank = transport_.rank().value;
  const auto prefix = fmt::format("tuner/{}/", store.add(fmt::format("tuner/gen/{}", rank), 1));
  const auto from_rank_0 = [&](std::string_view what) { return hear(store, prefix, what, rank, timeout); };
  const Partners partners(transport_.hosts());
  if (rank == 0) {
    lead(store, prefix, defaults, measures);
  } else if (rank == partners.near || rank == partners.far) {
    const auto asked = from_rank_0("partners");
    if (asked.find(rank == partners.near ? kNear : kFar) != std::string::npos) talk_to(0).answer();
  }
  const auto agreed = CostParameters::decode(from_rank_0("parameters"));
  std::erase_if(talks_, [](const auto& talk) { return talk->quiet(); });
  return agreed;
}

/// What rank 0 does: says who is to answer, measures and publishes.
void Probe::lead(Store& store, const std::string& prefix, CostParameters defaults, bool measures) {
  const Partners partners(transport_.hosts());
  const auto known = [&](ProbeCache::Link link) { return cache_.find(transport_.name(), link).has_value(); };
  const bool near = measures && partners.near > 0;
  const bool far = measures && partners.far > 0;
  const bool asks_near = near && !known(ProbeCache::Link::near);
  const bool asks_far = far && !known(ProbeCache::Link::far);
  store.set(prefix + "partners", bytes_of(fmt::format("{}{}", asks_near ? kNear : "", asks_far ? kFar : "")));
  if (defaults.cores_per_host == 0) defaults.cores_per_host = available_cores(transport_);
  CostParameters result = defaults;
  try {
    if (asks_near) measure(ProbeCache::Link::near, partners.near);
    if (asks_far) measure(ProbeCache::Link::far, partners.far);
    const auto found = [&](bool wanted, ProbeCache::Link link) {
      return wanted ? cache_.find(transport_.name(), link) : std::nullopt;
    };
    result = refined(defaults, found(near, ProbeCache::Link::near), found(far, ProbeCache::Link::far),
                     measures ? reduction_rate() : 0);
  } catch (const std::exception& error) {
    log::info("the probe failed, algorithms are chosen by defaults: {}", error.what());
  }
  store.set(prefix + "parameters", bytes_of(result.encode()));
}

void Probe::measure(ProbeCache::Link link, int peer) {
  if (const auto measured = talk_to(peer).ask()) {
    cache_.keep(transport_.name(), link, *measured);
  } else {
    log::info("the probe got no answer from rank {}, algorithms are chosen by defaults", peer);
  }
}

ProbeTalk& Probe::talk_to(int peer) {
  return *talks_.emplace_back(std::make_unique<ProbeTalk>(transport_, Rank(peer), guarded_, patience_));
}

}  // namespace ucxring
