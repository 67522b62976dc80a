// Measures links when a group is made, so that algorithms are chosen by what they are really like.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/cost_parameters.hpp"
#include "collectives/probe_talk.hpp"
#include "transport/store.hpp"
#include "transport/transport.hpp"

namespace ucxring {

/// Links measured before, by transport and class. Thread-safe.
class ProbeCache {
 public:
  enum class Link { near, far };

  [[nodiscard]] std::optional<LinkMeasurement> find(std::string_view transport, Link link) const;
  void keep(std::string_view transport, Link link, const LinkMeasurement& measured);

  /// That of this process.
  [[nodiscard]] static ProbeCache& process();

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, Link>, LinkMeasurement> known_;
};

/// `defaults` refined by measurements, which count within a factor of 8 of the defaults (the rate of a
/// network within 32: networks do differ by that much). Nothing stands for a link that was not measured;
/// `reduce_bytes_per_us` 0 likewise.
[[nodiscard]] CostParameters refined(const CostParameters& defaults,
                                     const std::optional<LinkMeasurement>& near,
                                     const std::optional<LinkMeasurement>& far,
                                     std::int64_t reduce_bytes_per_us);

/// Agreement of all ranks of a new group on the parameters of its cost model. Collective. Rank 0 measures the
/// links to the first other rank of its host and to the first rank of another host, unless its cache knows
/// them, and publishes the result through the store; all ranks take that. Takes 5 ms as a rule; each link at
/// most about half a second, when its peer does not answer. On any trouble rank 0 publishes `defaults`.
class Probe {
 public:
  /// `transport` is driven through `guarded` only. It must be destroyed or aborted before this object, since
  /// messages of a probe that failed may still be posted.
  Probe(Transport& transport, Guarded guarded, ProbeCache& cache, const ProbePatience& patience = {})
      : transport_(transport), guarded_(std::move(guarded)), cache_(cache), patience_(patience) {}
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  /// Returns what all ranks use. Rank 0's `measures` counts: whether links are measured at all. Throws
  /// `Error`: timeout when rank 0 publishes nothing within `timeout`, mismatch when it has another version.
  [[nodiscard]] CostParameters agree(Store& store, const CostParameters& defaults, bool measures,
                                     std::chrono::milliseconds timeout);

 private:
  void lead(Store& store, const std::string& prefix, CostParameters defaults, bool measures);
  void measure(ProbeCache::Link link, int peer);
  ProbeTalk& talk_to(int peer);

  Transport& transport_;
  Guarded guarded_;
  ProbeCache& cache_;
  ProbePatience patience_;
  std::vector<std::unique_ptr<ProbeTalk>> talks_;  // those in which something is still posted
};

}  // namespace ucxring
