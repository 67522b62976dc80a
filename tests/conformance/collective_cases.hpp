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
  std::size_t count = 0;  ///< elements as in `Fingerprint`; of an uneven call about as many
  int root = 0;
  bool in_place = false;  ///< where the collective and the rank have such a form
  bool uneven = false;    ///< with a count for each rank, some of them 0

  [[nodiscard]] std::string describe() const;
  /// Elements that rank `from` has for rank `to`: the same for all `to` where it has one part for all, and
  /// for all `from` where the sum of all is cut.
  [[nodiscard]] std::size_t elements(int from, int to) const;
};

/// One rank's buffers of a case.
class CaseBuffers {
 public:
  CaseBuffers(const CollectiveCase& shape, int rank, int world_size);
  /// Starts the operation; `wait_soon` as in `CallOptions`.
  [[nodiscard]] Operation start(Communicator& communicator, bool wait_soon = false);
  /// Empty when the results are right and nothing else was touched, else what is wrong.
  [[nodiscard]] std::string check() const;

 private:
  /// Where input and output lie.
  enum class Memory : std::uint8_t { apart, input_in_output, output_in_input };

  void fill_reduction();
  void fill_copies();
  [[nodiscard]] Memory memory() const;
  [[nodiscard]] Operation start_uneven(Communicator& communicator, ConstBuffer source, Buffer target,
                                       const CallOptions& call) const;
  [[nodiscard]] Bytes part(int from, int to) const;
  [[nodiscard]] std::size_t bytes(int from, int to) const;
  [[nodiscard]] std::byte* output();
  [[nodiscard]] const std::byte* output() const;

  CollectiveCase case_;
  int rank_;
  int world_size_;
  Memory memory_;
  Bytes input_;           // as given
  Bytes original_input_;  // to see that it was not modified
  Bytes output_;          // with a guard before and after
  Bytes expected_;
  std::size_t offset_ = 0;  // in place: of the smaller buffer in the larger one
};

/// The counts worth trying for `world_size` ranks, the last one larger than a slice of `slice_bytes`.
[[nodiscard]] std::vector<std::size_t> edge_counts(int world_size, std::size_t slice_bytes);

/// The setting that forces `algorithm`.
[[nodiscard]] std::string only(const Algorithm& algorithm);

}  // namespace ucxring::testing
