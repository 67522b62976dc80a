#include "collectives/communicator.hpp"

#include <fmt/format.h>

#include <utility>

#include "collectives/execution.hpp"
#include "collectives/group.hpp"
#include "collectives/registry.hpp"
#include "transport/base/log.hpp"
#include "transport/selector.hpp"

namespace ucxring {

namespace {

std::size_t elements(std::string_view what, std::size_t bytes, DataType type) {
  const std::size_t size = size_of(type);
  if (bytes % size == 0) return bytes / size;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: {} bytes are no whole number of {} elements of {} bytes", what, bytes,
                          to_string(type), size));
}

void require_same_size(std::string_view what, std::size_t have, std::size_t want, std::string_view rule) {
  if (have == want) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: output has {} bytes, but {} {}", what, have, rule, want));
}

/// Two buffers may be the same memory at `allowed` or not touch at all.
void require_no_overlap(std::string_view what, ConstBuffer input, ConstBuffer output,
                        const std::byte* allowed) {
  const bool apart = input.data + input.bytes <= output.data || output.data + output.bytes <= input.data;
  if (apart || input.bytes == 0 || output.bytes == 0 || input.data == allowed) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: input and output overlap other than in place; use separate buffers", what));
}

}  // namespace

bool Operation::done() const noexcept { return !execution_ || execution_->done(); }

Status Operation::status() const {
  return execution_ && execution_->done() ? execution_->status() : Status();
}

Status Operation::wait(std::chrono::milliseconds limit) const {
  return execution_ ? execution_->wait(limit) : Status();
}

std::uint64_t Operation::sequence() const noexcept { return execution_ ? execution_->sequence() : 0; }

std::unique_ptr<Communicator> Communicator::create(const std::shared_ptr<Store>& store, Rank rank,
                                                   int world_size, const Options& options) {
  log::configure(options.config.log_level, rank.value, world_size);
  check_preference(options.config.algorithm);
  Engine& engine = Engine::process({options.config.spin, options.config.progress_thread});
  auto transport = connect(store, rank, world_size, options.timeout, options.config, options.master_host);
  return std::make_unique<Communicator>(std::move(transport), engine, options);
}

Communicator::Communicator(std::unique_ptr<Transport> transport, Engine& engine, const Options& options)
    : group_(std::make_shared<Group>(std::move(transport), engine, options)) {}

Communicator::~Communicator() { group_->shutdown(); }

Rank Communicator::rank() const noexcept { return group_->rank(); }
int Communicator::world_size() const noexcept { return group_->world_size(); }
std::string_view Communicator::transport_name() const noexcept { return group_->transport_name(); }
std::uint64_t Communicator::sequence() const noexcept { return group_->sequence(); }
Status Communicator::status() const { return group_->status(); }
void Communicator::set_timeout(std::chrono::milliseconds timeout) { group_->set_timeout(timeout); }
std::chrono::milliseconds Communicator::timeout() const noexcept { return group_->timeout(); }

Operation Communicator::all_reduce(ConstBuffer input, Buffer output, DataType type, ReduceOp op,
                                   const CallOptions& call) {
  const auto count = elements("all_reduce", input.bytes, type);
  require_same_size("all_reduce", output.bytes, input.bytes, "the input has");
  require_no_overlap("all_reduce", input, output, output.data);
  return group_->start({Collective::all_reduce, type, op, 0, count}, {input.data, output.data, call.factor},
                       call);
}

Operation Communicator::broadcast(Buffer buffer, DataType type, Rank root, const CallOptions& call) {
  if (root.value < 0 || root.value >= world_size()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("broadcast: root {} is not a rank of this group of {}", root.value, world_size()));
  }
  const auto count = elements("broadcast", buffer.bytes, type);
  return group_->start({Collective::broadcast, type, ReduceOp::sum, root.value, count},
                       {buffer.data, buffer.data, 1.0}, call);
}

Operation Communicator::all_gather(ConstBuffer input, Buffer output, DataType type, const CallOptions& call) {
  const auto count = elements("all_gather", input.bytes, type);
  require_same_size("all_gather", output.bytes, input.bytes * static_cast<std::size_t>(world_size()),
                    "world size times the input is");
  require_no_overlap("all_gather", input, output,
                     output.data + static_cast<std::size_t>(rank().value) * input.bytes);
  return group_->start({Collective::all_gather, type, ReduceOp::sum, 0, count},
                       {input.data, output.data, 1.0}, call);
}

Operation Communicator::reduce_scatter(ConstBuffer input, Buffer output, DataType type, ReduceOp op,
                                       const CallOptions& call) {
  const auto count = elements("reduce_scatter", output.bytes, type);
  require_same_size("reduce_scatter", output.bytes * static_cast<std::size_t>(world_size()), input.bytes,
                    "times world size must be the input's");
  require_no_overlap("reduce_scatter", output, input,
                     input.data + static_cast<std::size_t>(rank().value) * output.bytes);
  return group_->start({Collective::reduce_scatter, type, op, 0, count},
                       {input.data, output.data, call.factor}, call);
}

Operation Communicator::barrier(const CallOptions& call) {
  return group_->start({Collective::barrier, DataType::uint8, ReduceOp::sum, 0, 0}, {}, call);
}

void Communicator::abort(const Status& why) { group_->abort(why); }
void Communicator::shutdown() { group_->shutdown(); }

}  // namespace ucxring
