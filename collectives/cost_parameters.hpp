// What a link and a core are assumed to cost: the numbers of the cost model, as integers, so that all ranks
// compute with the same ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ucxring {

/// One class of links. A rate of 0 means that moving bytes there takes no time.
struct LinkParameters {
  std::int64_t latency_ns = 0;            ///< from the sender's last instruction to the receiver's first
  std::int64_t overhead_ns = 0;           ///< of a core, for each message, on either side
  std::int64_t send_bytes_per_us = 0;     ///< rate at which the sender's core moves bytes
  std::int64_t receive_bytes_per_us = 0;  ///< rate at which the receiver's core moves bytes
  std::int64_t wire_bytes_per_us = 0;     ///< rate of a host's network interface, in each direction
  friend bool operator==(const LinkParameters&, const LinkParameters&) = default;

  /// Bytes per second that one direction carries: the slowest of the rates; 0 when nothing is known of them.
  [[nodiscard]] double bytes_per_second() const noexcept;
};

/// All parameters. The defaults are those of common machines: two ranks of one host that share a cache, and
/// hosts joined by Ethernet of 25 Gbit/s.
struct CostParameters {
  LinkParameters near{.latency_ns = 250,
                      .overhead_ns = 150,
                      .send_bytes_per_us = 40'000,
                      .receive_bytes_per_us = 20'000,
                      .wire_bytes_per_us = 0};  ///< between ranks of one host: shared memory
  LinkParameters far{.latency_ns = 18'000,
                     .overhead_ns = 3'000,
                     .send_bytes_per_us = 6'000,
                     .receive_bytes_per_us = 6'000,
                     .wire_bytes_per_us = 2'500};  ///< between hosts
  /// Rate of a reduction from the cache, beyond the copy that moves the bytes.
  std::int64_t reduce_bytes_per_us = 300'000;
  std::int64_t cores_per_host = 0;  ///< more ranks than that share them; 0: as many as ranks
  friend bool operator==(const CostParameters&, const CostParameters&) = default;

  /// One line of integers, for the store.
  [[nodiscard]] std::string encode() const;
  /// Inverse of `encode`. Throws `Error` (mismatch) for anything else.
  [[nodiscard]] static CostParameters decode(std::string_view text);
};

}  // namespace ucxring
