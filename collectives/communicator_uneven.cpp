// Collectives with a count for each rank.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "collectives/arguments.hpp"
#include "collectives/communicator.hpp"
#include "collectives/group.hpp"

namespace ucxring {

namespace {

using arguments::before;
using arguments::bytes_of;
using arguments::elements;
using arguments::require_bytes;
using arguments::require_no_overlap;
using arguments::require_root;
using arguments::total;

using Counts = std::span<const std::size_t>;

bool all_equal(Counts counts) noexcept {
  return std::equal(counts.begin() + 1, counts.end(), counts.begin());
}

}  // namespace

Operation Communicator::all_gather(ConstBuffer input, Buffer output, DataType type, Counts counts,
                                   const CallOptions& call) {
  const auto sum = total("all_gather", counts, world_size());
  require_bytes("all_gather", "input", input.bytes, bytes_of("all_gather", counts[place()], type),
                "this rank's count makes");
  require_bytes("all_gather", "output", output.bytes, bytes_of("all_gather", sum, type), "the counts make");
  // All ranks see the same counts, so all turn to the even form.
  if (all_equal(counts)) return all_gather(input, output, type, call);
  require_no_overlap("all_gather", input, output, output.data + before(counts, rank()) * size_of(type));
  const Fingerprint fingerprint{Collective::all_gather, type, ReduceOp::sum, 0, counts_stamp(counts), true};
  return group_->start(fingerprint, {input.data, output.data, 1.0}, call,
                       {counts.subspan(place(), 1), counts});
}

Operation Communicator::reduce_scatter(ConstBuffer input, Buffer output, DataType type, ReduceOp op,
                                       Counts counts, const CallOptions& call) {
  const auto sum = total("reduce_scatter", counts, world_size());
  require_bytes("reduce_scatter", "output", output.bytes, bytes_of("reduce_scatter", counts[place()], type),
                "this rank's count makes");
  require_bytes("reduce_scatter", "input", input.bytes, bytes_of("reduce_scatter", sum, type),
                "the counts make");
  if (all_equal(counts)) return reduce_scatter(input, output, type, op, call);
  require_no_overlap("reduce_scatter", output, input, input.data + before(counts, rank()) * size_of(type));
  const Fingerprint fingerprint{Collective::reduce_scatter, type, op, 0, counts_stamp(counts), true};
  return group_->start(fingerprint, {input.data, output.data, call.factor}, call,
                       {counts, counts.subspan(place(), 1)});
}

Operation Communicator::gather(ConstBuffer input, Buffer output, DataType type, Counts counts, Rank root,
                               const CallOptions& call) {
  require_root("gather", root, world_size());
  const std::array own{elements("gather", input.bytes, type)};
  if (rank() == root) {
    const auto sum = total("gather", counts, world_size());
    require_bytes("gather", "input", input.bytes, bytes_of("gather", counts[place()], type),
                  "this rank's count makes");
    require_bytes("gather", "output", output.bytes, bytes_of("gather", sum, type), "the counts make");
    require_no_overlap("gather", input, output, output.data + before(counts, root) * size_of(type));
  }
  const Fingerprint fingerprint{Collective::gather, type, ReduceOp::sum, root.value, 0, true};
  return group_->start(fingerprint, {input.data, output.data, 1.0}, call,
                       {own, rank() == root ? counts : Counts()});
}

Operation Communicator::scatter(ConstBuffer input, Buffer output, DataType type, Counts counts, Rank root,
                                const CallOptions& call) {
  require_root("scatter", root, world_size());
  const std::array own{elements("scatter", output.bytes, type)};
  if (rank() == root) {
    const auto sum = total("scatter", counts, world_size());
    require_bytes("scatter", "output", output.bytes, bytes_of("scatter", counts[place()], type),
                  "this rank's count makes");
    require_bytes("scatter", "input", input.bytes, bytes_of("scatter", sum, type), "the counts make");
    require_no_overlap("scatter", output, input, input.data + before(counts, root) * size_of(type));
  }
  const Fingerprint fingerprint{Collective::scatter, type, ReduceOp::sum, root.value, 0, true};
  return group_->start(fingerprint, {input.data, output.data, 1.0}, call,
                       {rank() == root ? counts : Counts(), own});
}

Operation Communicator::all_to_all(ConstBuffer input, Buffer output, DataType type, Counts send_counts,
                                   Counts receive_counts, const CallOptions& call) {
  const auto sent = total("all_to_all", send_counts, world_size());
  const auto received = total("all_to_all", receive_counts, world_size());
  require_bytes("all_to_all", "input", input.bytes, bytes_of("all_to_all", sent, type),
                "the send counts make");
  require_bytes("all_to_all", "output", output.bytes, bytes_of("all_to_all", received, type),
                "the receive counts make");
  if (send_counts[place()] != receive_counts[place()]) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("all_to_all: rank {} sends {} elements to itself, but receives {} from itself",
                            rank().value, send_counts[place()], receive_counts[place()]));
  }
  require_no_overlap("all_to_all", input, output, nullptr);
  const Fingerprint fingerprint{Collective::all_to_all, type, ReduceOp::sum, 0, 0, true};
  return group_->start(fingerprint, {input.data, output.data, 1.0}, call, {send_counts, receive_counts});
}

}  // namespace ucxring
