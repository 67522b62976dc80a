// When a message arrives: the arithmetic of the simulated network, without the messages.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "transport/sim/sim.hpp"

namespace ucxring::sim {

/// Reserves time on ranks and NICs. See `World` for the model.
class Network {
 public:
  explicit Network(const Options& options);

  /// Reserves what a message of `bytes` from `from` to `to`, posted at `at`, uses, and returns its arrival.
  [[nodiscard]] Time reserve(Rank from, Rank to, std::size_t bytes, Time at);
  /// Arrival of what is too small to use a NIC and leaves at `at` (control messages, answers), never before
  /// the pair's earlier messages.
  [[nodiscard]] Time reserve_control(Rank from, Rank to, Time at);
  [[nodiscard]] Duration latency(Rank from, Rank to) const noexcept;
  void slow(Rank rank, double factor);

 private:
  [[nodiscard]] std::size_t host(Rank rank) const noexcept;
  [[nodiscard]] Duration random_delay() noexcept;
  [[nodiscard]] Time in_order(Rank from, Rank to, Time arrival);

  Options options_;
  std::uint64_t random_;
  std::vector<double> slowness_;                    // per rank
  std::vector<Time> rank_free_;                     // when a rank can send its next message
  std::vector<Time> send_free_;                     // per host: when its NIC can send the next byte
  std::vector<Time> receive_free_;                  // per host: when its NIC can receive the next byte
  std::unordered_map<std::uint64_t, Time> latest_;  // per pair that has talked: its newest arrival
};

}  // namespace ucxring::sim
