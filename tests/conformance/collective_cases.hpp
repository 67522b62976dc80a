// One check per collective, the same over every transport: exact inputs, results compared bit for bit, guards
// around them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/registry.hpp"
#include "tests/support/exact_inputs.hpp"

namespace ucxring::testing {

/// One operation of one shape.
struct CollectiveCase {
  Collective collective;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 0;  ///< elements per rank (reduce_scatter: of the output)
  int root = 0;
  bool in_place = false;

  [[nodiscard]] std::string describe() const;
};

/// One rank's buffers of a case.
class CaseBuffers {
 public:
  CaseBuffers(const CollectiveCase& shape, int rank, int world_size);
  /// Starts the operation.
  [[nodiscard]] Operation start(Communicator& communicator);
  /// Empty when the results are right and nothing else was touched, else what is wrong.
  [[nodiscard]] std::string check() const;

 private:
  [[nodiscard]] std::byte* output();
  [[nodiscard]] const std::byte* output() const;

  CollectiveCase case_;
  int rank_;
  Bytes input_;           // as given
  Bytes original_input_;  // to see that it was not modified
  Bytes output_;          // with a guard before and after
  Bytes expected_;
  std::size_t input_offset_ = 0;  // in place: where in the output (all_gather), or the output in the input
};

/// The counts worth trying for `world_size` ranks, the last one larger than a slice of `slice_bytes`.
[[nodiscard]] std::vector<std::size_t> edge_counts(int world_size, std::size_t slice_bytes);

/// The setting that forces `algorithm`.
[[nodiscard]] std::string only(const Algorithm& algorithm);

}  // namespace ucxring::testing
