// What a step of training took, and what ranks tell each other about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ucxring::ddp {

/// Seconds on the steady clock, which is the one of Python's time.perf_counter.
[[nodiscard]] double now_seconds();

struct BucketTiming {
  std::size_t bytes = 0;
  double started = 0;   ///< its reduction was started
  double finished = 0;  ///< it was seen to be done
};

/// What one rank says of itself in a step, in the last bucket's reduction.
struct RankNote {
  double seconds = 0;                ///< of its own work: from the end of the step before to the last bucket
  std::uint32_t batch_hash = 0;      ///< kHashBits bits; 0: not given
  std::uint32_t parameter_hash = 0;  ///< likewise
};

/// One step in which gradients were averaged. Times are seconds as `now_seconds` gives them.
struct StepTiming {
  std::uint64_t step = 0;
  double forward = 0;   ///< its last forward began
  double backward = 0;  ///< backward began
  double computed = 0;  ///< the last local gradient was there
  double finished = 0;  ///< all averages were in the gradients
  std::vector<BucketTiming> buckets;
  std::vector<RankNote> ranks;  ///< by rank; empty where notes could not be sent along
};

/// Hashes are whole numbers that survive a division by the world size in float.
inline constexpr int kHashBits = 20;
/// Numbers that one rank's note takes.
inline constexpr std::size_t kNumbersPerNote = 3;

}  // namespace ucxring::ddp
