// Plans: a schedule applied to one shape of operation, with everything computed that does not depend on the
// buffers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/moves.hpp"
#include "collectives/partition.hpp"
#include "collectives/reduce/streaming_copy.hpp"
#include "collectives/reduce/table.hpp"
#include "collectives/registry.hpp"
#include "collectives/schedule.hpp"
#include "collectives/tuner.hpp"
#include "transport/base/config.hpp"

namespace ucxring {

/// Where a chunk of scratch lies. Slices of a bundle lie in a lane's scratch without gaps.
struct ScratchExtent {
  std::size_t offset = 0;  ///< of its bundle in a lane's scratch
  std::size_t bytes = 0;   ///< of the whole chunk
  std::size_t place = 0;   ///< in the bundle
};

/// One shape of operation on one rank. Immutable once made; shared by all operations of that shape.
struct Plan {
  Fingerprint fingerprint;
  Stamp stamp = 0;  ///< the fingerprint, packed
  std::string_view algorithm;
  Schedule schedule;
  Moves moves;

  ChunkMap input, output;  ///< chunk → bytes of the user's buffers
  std::vector<ScratchExtent> scratch;
  std::size_t scratch_bytes = 0;  ///< one lane's scratch

  std::size_t element_bytes = 1;
  int element_shift = 0;        ///< element_bytes = 2 ^ element_shift
  std::size_t slice_bytes = 0;  ///< what a lane moves of each chunk, a multiple of 64
  std::uint64_t lanes = 1;      ///< lane l moves bytes [l × slice, (l + 1) × slice) of every chunk; of an
                                ///< uneven operation, ranks with shorter chunks have fewer
  int window = 1;               ///< lanes in flight
  std::size_t input_bytes = 0;
  std::size_t output_bytes = 0;
  Reduction reduction;
  double divisor = 1;  ///< of an average: the world size
  bool immediate =
      false;  ///< one lane, only through shared memory, no scratch: may run in the caller's thread
  bool streams =
      false;  ///< the ranks of this host touch more bytes than the caches hold: copies pass by them
};

/// What all plans of one rank in one group have in common.
struct PlanEnvironment {
  Rank rank;
  int world_size = 1;
  std::vector<int> hosts;                ///< as `Transport::hosts()`
  const SharedMemory* shared = nullptr;  ///< as `Transport::shared_memory()`; not owned
  Config config;
  CostParameters parameters;
  std::size_t cache_bytes = largest_cache_bytes();  ///< that the ranks of this host share
};

/// Elements in each chunk of an uneven operation on this rank, which may not know what others have. Refers to
/// the caller's memory.
struct UnevenCounts {
  std::span<const std::size_t> input;
  std::span<const std::size_t> output;
};

/// Makes the plan of `fingerprint` for one rank of a group, by `algorithm` (null in a group of one); `counts`
/// matter if it is uneven. Pure: all ranks get plans that fit together, though the numbers of lanes differ
/// where counts do. Throws `Error` (unsupported, invalid_argument).
[[nodiscard]] Plan make_plan(const Fingerprint& fingerprint, const PlanEnvironment& environment,
                             const Algorithm* algorithm, const UnevenCounts& counts = {});

/// Plans by shape; the newest costs a comparison, others a hash look-up. Not thread-safe.
class PlanCache {
 public:
  explicit PlanCache(PlanEnvironment environment);
  /// Valid until the next call.
  [[nodiscard]] const std::shared_ptr<const Plan>& get(const Fingerprint& fingerprint,
                                                       const UnevenCounts& counts = {}) {
    if (newest_ != nullptr && (*newest_)->fingerprint == fingerprint) return *newest_;
    return look_up(fingerprint, counts);
  }

 private:
  struct UnevenEntry {
    std::vector<std::size_t> input;
    std::vector<std::size_t> output;
    std::shared_ptr<const Plan> plan;
  };
  static constexpr std::size_t kCapacity =
      1024;  ///< direct-mapped; a program that reduces ever new sizes evicts
  static constexpr std::size_t kUnevenCapacity = 64;  ///< likewise; these hold counts besides

  [[nodiscard]] const std::shared_ptr<const Plan>& look_up(const Fingerprint& fingerprint,
                                                           const UnevenCounts& counts);
  [[nodiscard]] const std::shared_ptr<const Plan>& look_up_uneven(const Fingerprint& fingerprint,
                                                                  const UnevenCounts& counts);
  [[nodiscard]] const Algorithm* choose(const Fingerprint& fingerprint, const UnevenCounts& counts);
  [[nodiscard]] bool speaks() const;

  PlanEnvironment environment_;
  Tuner tuner_;
  std::vector<std::shared_ptr<const Plan>> entries_;
  const std::shared_ptr<const Plan>* newest_ = nullptr;  ///< in `entries_`, so never uneven
  std::vector<UnevenEntry> uneven_;                      // made with the first one
};

}  // namespace ucxring
