#include "transport/sim/network.hpp"

#include <algorithm>
#include <cmath>

namespace ucxring::sim {
namespace {

Duration transfer_time(std::size_t bytes, double bandwidth, double slowness) {
  const double nanoseconds = std::ceil(static_cast<double>(bytes) / bandwidth * slowness * 1e9);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds));
}

Duration scaled(Duration duration, double factor) {
  return Duration(std::llround(static_cast<double>(duration.count()) * factor));
}

}  // namespace

Network::Network(const Options& options) : options_(options), random_(options.seed) {
  const auto ranks = static_cast<std::size_t>(options.world_size);
  const auto hosts = host(Rank(options.world_size - 1)) + 1;
  slowness_.assign(ranks, 1.0);
  rank_free_.assign(ranks, Time{});
  send_free_.assign(hosts, Time{});
  receive_free_.assign(hosts, Time{});
}

std::size_t Network::host(Rank rank) const noexcept {
  return static_cast<std::size_t>(rank.value / options_.ranks_per_host);
}

Duration Network::latency(Rank from, Rank to) const noexcept {
  return host(from) == host(to) ? options_.host_latency : options_.latency;
}

void Network::slow(Rank rank, double factor) { slowness_[static_cast<std::size_t>(rank.value)] = factor; }

Time Network::reserve(Rank from, Rank to, std::size_t bytes, Time at) {
  const double slowness = slowness_[static_cast<std::size_t>(from.value)];
  Time& rank_free = rank_free_[static_cast<std::size_t>(from.value)];
  rank_free = std::max(at, rank_free) + scaled(options_.overhead, slowness);
  Time arrival;
  if (host(from) == host(to)) {
    rank_free += transfer_time(bytes, options_.host_bandwidth, slowness);
    arrival = rank_free + options_.host_latency;
  } else {
    const Duration busy = transfer_time(bytes, options_.bandwidth, slowness);
    Time& send_free = send_free_[host(from)];
    Time& receive_free = receive_free_[host(to)];
    const Time first_byte = std::max(rank_free, send_free);
    send_free = first_byte + busy;
    // A slow sender's bytes come slowly, so they keep the receiving NIC as long.
    receive_free = std::max(first_byte + options_.latency, receive_free) + busy;
    arrival = receive_free;
  }
  arrival += random_delay();
  const Time ordered = in_order(from, to, arrival);
  return options_.reorder ? arrival : ordered;
}

Time Network::reserve_control(Rank from, Rank to, Time at) {
  return in_order(from, to, at + latency(from, to) + random_delay());
}

Time Network::in_order(Rank from, Rank to, Time arrival) {
  const auto pair = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(from.value)) << 32) |
                    static_cast<std::uint32_t>(to.value);
  Time& latest = latest_[pair];
  latest = std::max(latest, arrival);
  return latest;
}

// SplitMix64 (Steele, Lea, Flood, 2014): the same numbers on every platform, which
// std::uniform_int_distribution does not promise.
Duration Network::random_delay() noexcept {
  if (options_.jitter <= Duration(0)) return Duration(0);
  random_ += 0x9e3779b97f4a7c15ULL;
  std::uint64_t mixed = random_;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  mixed ^= mixed >> 31;
  return Duration(static_cast<Duration::rep>(mixed % static_cast<std::uint64_t>(options_.jitter.count())));
}

}  // namespace ucxring::sim
