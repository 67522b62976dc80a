// The collectives library's front door: a group of ranks and its operations. No torch needed.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "collectives/collective.hpp"
#include "collectives/engine.hpp"
#include "collectives/reduce/types.hpp"
#include "transport/base/config.hpp"
#include "transport/store.hpp"
#include "transport/transport.hpp"

namespace ucxring {

class Execution;
class Group;

/// DataType of a C++ element type; specialised for the arithmetic types.
template <typename T>
struct DataTypeOf;

/// Handle of one operation in flight. Copyable; outlives its communicator. Thread-safe.
class Operation {
 public:
  Operation() noexcept = default;  ///< no operation: done, ok
  explicit Operation(std::shared_ptr<Execution> execution) noexcept : execution_(std::move(execution)) {}

  [[nodiscard]] bool done() const noexcept;
  /// The outcome; ok while the operation is in flight.
  [[nodiscard]] Status status() const;
  /// Waits, driving progress, at most `limit` (0 ms or less: without limit; the operation's own deadline ends
  /// it). Returns ok, the operation's failure, or a timeout after which the operation is still in flight and
  /// may be waited for again. Lets exceptions of the interrupt check out.
  Status wait(std::chrono::milliseconds limit = std::chrono::milliseconds(0)) const;
  /// Number of the operation in its group, from 1.
  [[nodiscard]] std::uint64_t sequence() const noexcept;

 private:
  std::shared_ptr<Execution> execution_;
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
/// positions (all_gather: the rank's own part of the output; reduce_scatter: its part of the input); other
/// overlap is refused. Argument errors throw `Error` before anything is sent and leave the group usable.
/// After a failure (timeout, peer_lost, mismatch) the group is dead: all later calls fail with the same
/// error. Thread-safe, though calls from several threads to one group need an order that is the same on all
/// ranks.
class Communicator {
 public:
  struct Options {
    Config config;
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
  /// Sequence number of the newest operation, 0 before the first.
  [[nodiscard]] std::uint64_t sequence() const noexcept;
  /// Ok, or why the group is dead.
  [[nodiscard]] Status status() const;
  /// Default deadline of later operations.
  void set_timeout(std::chrono::milliseconds timeout);
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept;

  /// output[i] = ⊕ over ranks of input[i]; both of the same size.
  Operation all_reduce(ConstBuffer input, Buffer output, DataType type, ReduceOp op,
                       const CallOptions& call = {});
  /// `buffer` of every rank becomes the root's.
  Operation broadcast(Buffer buffer, DataType type, Rank root, const CallOptions& call = {});
  /// output = inputs of all ranks in rank order; output.bytes = world size × input.bytes.
  Operation all_gather(ConstBuffer input, Buffer output, DataType type, const CallOptions& call = {});
  /// output = part `rank` of ⊕ over ranks of input; input.bytes = world size × output.bytes.
  Operation reduce_scatter(ConstBuffer input, Buffer output, DataType type, ReduceOp op,
                           const CallOptions& call = {});
  /// Done when every rank has called it.
  Operation barrier(const CallOptions& call = {});

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
  std::shared_ptr<Group> group_;
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
