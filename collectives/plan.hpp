// Plans: a schedule applied to one shape of operation, with everything computed that does not depend on the
// buffers.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/partition.hpp"
#include "collectives/reduce/table.hpp"
#include "collectives/registry.hpp"
#include "collectives/schedule.hpp"
#include "transport/base/config.hpp"

namespace ucxring {

/// What the planner adds to a step.
struct StepPlan {
  std::uint32_t ordinal = 0;  ///< n-th message between this ordered pair of ranks, the step field of the tag
  std::uint32_t send_slot = 0;     ///< for sends: which completion of the lane it uses
  std::uint32_t first_hazard = 0;  ///< sends that must be complete before this step writes its target …
  std::uint32_t hazard_count = 0;  ///< … as a range of `Plan::hazards`
};

/// One shape of operation on one rank. Immutable once made; shared by all operations of that shape.
struct Plan {
  Fingerprint fingerprint;
  std::string_view algorithm;
  Schedule schedule;
  std::vector<StepPlan> steps;
  std::vector<std::uint32_t> hazards;  ///< send slots
  std::uint32_t sends = 0;             ///< send slots in all

  ChunkMap input, output;  ///< chunk → bytes of the user's buffers
  ChunkMap scratch;        ///< scratch chunk → offset in a lane's scratch, and the bytes of the whole chunk
  std::size_t scratch_bytes = 0;  ///< one lane's scratch

  std::size_t element_bytes = 1;
  std::size_t slice_bytes = 0;  ///< what a lane moves of each chunk, a multiple of 64
  std::uint64_t lanes = 1;      ///< lane l moves bytes [l × slice, (l + 1) × slice) of every chunk
  int window = 1;               ///< lanes in flight
  std::size_t input_bytes = 0;
  std::size_t output_bytes = 0;
  Reduction reduction;
  double divisor = 1;  ///< of an average: the world size
};

/// Makes the plan of `fingerprint` for one rank of a group. Pure: all ranks get plans that fit together.
/// Throws `Error` (unsupported, invalid_argument).
[[nodiscard]] Plan make_plan(const Fingerprint& fingerprint, Rank rank, int world_size, const Config& config);

/// Plans by shape; a repeated shape costs a hash look-up. Not thread-safe.
class PlanCache {
 public:
  PlanCache(Rank rank, int world_size, Config config);
  [[nodiscard]] std::shared_ptr<const Plan> get(const Fingerprint& fingerprint);

 private:
  struct Entry {
    Stamp stamp;
    std::uint64_t count;
    std::shared_ptr<const Plan> plan;
  };
  static constexpr std::size_t kCapacity =
      1024;  ///< direct-mapped; a program that reduces ever new sizes evicts

  Rank rank_;
  int world_size_;
  Config config_;
  std::vector<Entry> entries_;
};

}  // namespace ucxring
