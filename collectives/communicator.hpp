// The collectives library's front door: a group of ranks and its operations. No torch needed.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "collectives/collective.hpp"
#include "collectives/cost_parameters.hpp"
#include "collectives/engine.hpp"
#include "collectives/reduce/types.hpp"
#include "transport/base/config.hpp"
#include "transport/registered_buffer.hpp"
#include "transport/store.hpp"
#include "transport/transport.hpp"

namespace ucxring {

class Group;
class OperationState;

/// DataType of a C++ element type; specialised for the arithmetic types.
template <typename T>
struct DataTypeOf;

/// Handle of one operation in flight. Copyable; outlives its communicator. Thread-safe.
class Operation {
 public:
  Operation() noexcept = default;  ///< no operation: done, ok
  explicit Operation(std::shared_ptr<const OperationState> state) noexcept : state_(std::move(state)) {}
  /// An operation that is done.
  explicit Operation(std::uint64_t sequence) noexcept : sequence_(sequence) {}

  [[nodiscard]] bool done() const noexcept;
  /// The outcome; ok while the operation is in flight.
  [[nodiscard]] Status status() const;
  /// Waits, driving progress, at most `limit` (0 ms or less: without limit; the operation's own deadline ends
  /// it). Returns ok, the operation's failure, or a timeout after which the operation is still in flight and
  /// may be waited for again. Lets exceptions of the interrupt check out.
  Status wait(std::chrono::milliseconds limit = std::chrono::milliseconds(0)) const;
  /// Number of the operation in its group, from 1: of a collective among collectives, of a send or receive
  /// among those of this rank.
  [[nodiscard]] std::uint64_t sequence() const noexcept;
  /// Once a receive is done: who sent the message, and its size. No rank and 0 for any other operation.
  [[nodiscard]] Rank source() const noexcept;
  [[nodiscard]] std::size_t received_bytes() const noexcept;

 private:
  std::shared_ptr<const OperationState> state_;  // null: done
  std::uint64_t sequence_ = 0;                   // when state_ is null
};

/// Options of one call.
struct CallOptions {
  std::chrono::milliseconds timeout{0};  ///< deadline of this operation; 0 or less: the group's
  double factor = 1.0;                   ///< this rank's factor of `ReduceOp::premul_sum`
  bool wait_soon = false;  ///< the caller waits next: nobody else needs to be woken to drive (latency path)
};

/// One rank's membership in a group. All ranks must call the same collectives in the same order; several may
/// be in flight. Calls return at once with an `Operation`; buffers must stay alive and, except as result,
/// untouched until it is done. Buffers given as input and output may be the same memory in the usual in-place
/// positions (all_gather and, on the root, gather: the rank's own part of the output; reduce_scatter and, on
/// the root, scatter: its part of the input; not all_to_all); other overlap is refused. What a rooted
/// collective gives or takes at the root only is ignored on other ranks and never touched. Argument errors
/// throw `Error` before anything is sent and leave the group usable.
///
/// Uneven forms take `counts`: elements of `type` for each rank, in rank order, packed without gaps. They
/// need to stay valid during the call only. All ranks call the uneven form, or none.
///
/// After a failure (timeout, peer_lost, mismatch) the group is dead: all later calls fail with the same
/// error. A forked child of the process that made it cannot use it: calls throw `invalid_argument`, `abort`,
/// `shutdown` and the destructor do nothing. Thread-safe, though calls from several threads to one group need
/// an order that is the same on all ranks.
class Communicator {
 public:
  struct Options {
    Config config;
    CostParameters parameters{};  ///< by which algorithms are chosen, the same on all ranks; `create`
                                  ///< measures them unless `config.probe` is off
    std::chrono::milliseconds timeout{
        std::chrono::minutes(30)};  ///< default deadline of operations, and of `create`
    std::string name = "world";     ///< for messages
    std::string
        master_host;  ///< a host all ranks can reach; picks the network device when none is configured
  };

  /// Joins the group through `store`, over the best transport for `options.config`. Collective over all
  /// ranks. Throws `Error`: timeout names the ranks that did not come.
  [[nodiscard]] static std::unique_ptr<Communicator> create(const std::shared_ptr<Store>& store, Rank rank,
                                                            int world_size, const Options& options);
  /// Over a given transport and engine. The engine must outlive the communicator.
  Communicator(std::unique_ptr<Transport> transport, Engine& engine, const Options& options);
  ~Communicator();  ///< leaves the group; operations in flight fail
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] int world_size() const noexcept;
  [[nodiscard]] std::string_view transport_name() const noexcept;
  /// What the slowest links of the group carry in one direction, in bytes per second, as measured when the
  /// group was made (or assumed where the probe is off); 0 when that is not known.
  [[nodiscard]] double link_bytes_per_second() const noexcept { return link_bytes_per_second_; }
  /// Sequence number of the newest operation, 0 before the first.
  [[nodiscard]] std::uint64_t sequence() const noexcept;
  /// Ok, or why the group is dead.
  [[nodiscard]] Status status() const;
  /// Default deadline of later operations.
  void set_timeout(std::chrono::milliseconds timeout);
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept;

  /// Registered memory of this process, for all its groups: collectives between processes of one host use it
  /// in place, without a copy of their own; everywhere else it is ordinary memory. Throws as
  /// `RegisteredBuffer::allocate`.
  [[nodiscard]] static RegisteredBuffer allocate(std::size_t bytes) {
    return RegisteredBuffer::allocate(bytes);
  }

  /// output[i] = ⊕ over ranks of input[i]; both of the same size.
  Operation all_reduce(ConstBuffer input, Buffer output, DataType type, ReduceOp op,
                       const CallOptions& call = {});
  /// `buffer` of every rank becomes the root's.
  Operation broadcast(Buffer buffer, DataType type, Rank root, const CallOptions& call = {});
  /// output of the root = ⊕ over ranks of input; both of the same size.
  Operation reduce(ConstBuffer input, Buffer output, DataType type, ReduceOp op, Rank root,
                   const CallOptions& call = {});
  /// output = inputs of all ranks in rank order; output.bytes = world size × input.bytes.
  Operation all_gather(ConstBuffer input, Buffer output, DataType type, const CallOptions& call = {});
  /// The same where rank r gives `counts[r]` elements, the same counts on all ranks.
  Operation all_gather(ConstBuffer input, Buffer output, DataType type, std::span<const std::size_t> counts,
                       const CallOptions& call = {});
  /// output = part `rank` of ⊕ over ranks of input; input.bytes = world size × output.bytes.
  Operation reduce_scatter(ConstBuffer input, Buffer output, DataType type, ReduceOp op,
                           const CallOptions& call = {});
  /// The same where rank r gets `counts[r]` elements, the same counts on all ranks.
  Operation reduce_scatter(ConstBuffer input, Buffer output, DataType type, ReduceOp op,
                           std::span<const std::size_t> counts, const CallOptions& call = {});
  /// output of the root = inputs of all ranks in rank order; output.bytes = world size × input.bytes.
  Operation gather(ConstBuffer input, Buffer output, DataType type, Rank root, const CallOptions& call = {});
  /// The same where rank r gives `counts[r]` elements. Only the root needs to know the counts: elsewhere they
  /// are ignored, and input.bytes is what the root has for this rank.
  Operation gather(ConstBuffer input, Buffer output, DataType type, std::span<const std::size_t> counts,
                   Rank root, const CallOptions& call = {});
  /// output = part `rank` of the root's input; input.bytes = world size × output.bytes on the root.
  Operation scatter(ConstBuffer input, Buffer output, DataType type, Rank root, const CallOptions& call = {});
  /// The same where rank r gets `counts[r]` elements. Only the root needs to know the counts: elsewhere they
  /// are ignored, and output.bytes is what the root has for this rank.
  Operation scatter(ConstBuffer input, Buffer output, DataType type, std::span<const std::size_t> counts,
                    Rank root, const CallOptions& call = {});
  /// Part r of output = part `rank` of the input of rank r; both of the same size, in world size parts.
  Operation all_to_all(ConstBuffer input, Buffer output, DataType type, const CallOptions& call = {});
  /// The same where this rank sends `send_counts[r]` elements to rank r and receives `receive_counts[r]` from
  /// it.
  Operation all_to_all(ConstBuffer input, Buffer output, DataType type,
                       std::span<const std::size_t> send_counts, std::span<const std::size_t> receive_counts,
                       const CallOptions& call = {});
  /// Done when every rank has called it.
  Operation barrier(const CallOptions& call = {});

  /// Sends `data` to `peer`, who receives it with the same `tag`, any 32 bits. This rank may be its own peer.
  /// Messages to one peer with one tag are received in the order they were sent; those with other tags, and
  /// collectives, go their own ways: other ranks take no part and no order is needed among them. A message of
  /// at most 8 KiB is done when it has been handed over, a larger one when the peer has received it, and not
  /// before it has called `receive`.
  Operation send(ConstBuffer data, DataType type, Rank peer, std::int32_t tag, const CallOptions& call = {});
  /// Receives the oldest message of `peer` with `tag` that no earlier receive takes. `buffer` may be larger
  /// than the message: its rest stays as it is, and `Operation::received_bytes` tells the size. A message
  /// that is larger than `buffer`, or of another type, is a `mismatch`, which ends the group.
  Operation receive(Buffer buffer, DataType type, Rank peer, std::int32_t tag, const CallOptions& call = {});
  /// As `receive`, from whichever rank's message with `tag` came first: `Operation::source`.
  Operation receive_any(Buffer buffer, DataType type, std::int32_t tag, const CallOptions& call = {});

  /// Blocking all_reduce in place. Throws on failure.
  template <typename T>
  void all_reduce(std::span<T> data, ReduceOp op = ReduceOp::sum) {
    const auto bytes = std::as_writable_bytes(data);
    const Buffer buffer{bytes.data(), bytes.size()};
    CallOptions call;
    call.wait_soon = true;
    all_reduce(buffer, buffer, DataTypeOf<T>::value, op, call).wait().throw_if_error();
  }

  /// Fails everything in flight and every later call with `why`, here and on all peers. Prompt; idempotent.
  void abort(const Status& why);
  /// Leaves the group in good order: operations in flight fail, peers are told. Prompt; idempotent.
  void shutdown();

 private:
  [[nodiscard]] std::size_t ranks() const noexcept;  // world size and rank, to count and index memory with
  [[nodiscard]] std::size_t place() const noexcept;

  std::shared_ptr<const void> named_;  // this group gives log lines their prefix, unless null
  std::shared_ptr<const void> kept_;   // what the transport of `group_` may still refer to
  std::shared_ptr<Group> group_;
  double link_bytes_per_second_;
};

template <>
struct DataTypeOf<float> {
  static constexpr DataType value = DataType::float32;
};
template <>
struct DataTypeOf<double> {
  static constexpr DataType value = DataType::float64;
};
template <>
struct DataTypeOf<std::int8_t> {
  static constexpr DataType value = DataType::int8;
};
template <>
struct DataTypeOf<std::uint8_t> {
  static constexpr DataType value = DataType::uint8;
};
template <>
struct DataTypeOf<std::int16_t> {
  static constexpr DataType value = DataType::int16;
};
template <>
struct DataTypeOf<std::int32_t> {
  static constexpr DataType value = DataType::int32;
};
template <>
struct DataTypeOf<std::int64_t> {
  static constexpr DataType value = DataType::int64;
};

}  // namespace ucxring
