#include "collectives/tuning_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "transport/base/parse.hpp"

namespace ucxring {
namespace {

constexpr int kLastShown = 30;  // 1 GiB

std::string show(const Tuner::Candidate& candidate) {
  if (!candidate.cost) return fmt::format("{} (not predicted)", candidate.algorithm->name);
  const double microseconds = std::chrono::duration<double, std::micro>(*candidate.cost).count();
  return microseconds < 1000 ? fmt::format("{} {:.3g} µs", candidate.algorithm->name, microseconds)
                             : fmt::format("{} {:.3g} ms", candidate.algorithm->name, microseconds / 1000);
}

std::string show(std::string_view name, const LinkParameters& link) {
  return fmt::format("{}: latency {} ns, overhead {} ns, bytes/µs send {}, receive {}, wire {}", name,
                     link.latency_ns, link.overhead_ns, link.send_bytes_per_us, link.receive_bytes_per_us,
                     link.wire_bytes_per_us);
}

std::string describe_ranges(Tuner& tuner, Collective collective) {
  const auto bytes_of = [](int size_class) { return std::size_t{1} << static_cast<unsigned>(size_class); };
  std::vector<std::string> ranges;
  for (int size_class = 0; size_class <= kLastShown; ++size_class) {
    const Algorithm* const chosen = &tuner.choose(collective, bytes_of(size_class));
    const bool goes_on =
        size_class < kLastShown && &tuner.choose(collective, bytes_of(size_class + 1)) == chosen;
    if (goes_on) continue;
    ranges.push_back(fmt::format("to {} {}", show_bytes(bytes_of(size_class)),
                                 show(tuner.candidates(collective, bytes_of(size_class)).front())));
  }
  return fmt::format("{}: {}", to_string(collective), fmt::join(ranges, ", "));
}

}  // namespace

std::vector<std::string> describe_tuning(Tuner& tuner) {
  const CostParameters& parameters = tuner.parameters();
  const std::set<int> hosts(tuner.hosts().begin(), tuner.hosts().end());
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{} ranks on {} hosts", tuner.world_size(), hosts.size()));
  lines.push_back(show("near", parameters.near));
  lines.push_back(show("far", parameters.far));
  lines.push_back(fmt::format("reduction {} bytes/µs beyond the copy, {} cores per host",
                              parameters.reduce_bytes_per_us, parameters.cores_per_host));
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (collective == Collective::barrier) {
      lines.push_back(describe_choice(tuner, collective, 0));
    } else {
      lines.push_back(describe_ranges(tuner, collective));
    }
  }
  return lines;
}

std::string describe_choice(const Tuner& tuner, Collective collective, std::size_t bytes) {
  const auto candidates = tuner.candidates(collective, bytes);
  std::vector<std::string> others;
  for (std::size_t i = 1; i < candidates.size(); ++i) others.push_back(show(candidates[i]));
  return fmt::format(
      "{}, {} bytes: {}; {}", to_string(collective), bytes, show(candidates.front()),
      others.empty() ? "no other is allowed" : fmt::format("others: {}", fmt::join(others, ", ")));
}

}  // namespace ucxring
