#include "collectives/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/arguments.hpp"
#include "collectives/group.hpp"
#include "collectives/operation_state.hpp"
#include "collectives/probe.hpp"
#include "collectives/tuner.hpp"
#include "transport/base/log.hpp"
#include "transport/selector.hpp"

namespace ucxring {

using arguments::elements;
using arguments::require_bytes;
using arguments::require_no_overlap;
using arguments::require_root;

bool Operation::done() const noexcept { return !state_ || state_->done(); }

Status Operation::status() const { return state_ && state_->done() ? state_->status() : Status(); }

Status Operation::wait(std::chrono::milliseconds limit) const {
  return state_ ? state_->wait(limit) : Status();
}

std::uint64_t Operation::sequence() const noexcept { return state_ ? state_->sequence() : sequence_; }

Rank Operation::source() const noexcept { return state_ && state_->done() ? state_->source() : Rank(); }

std::size_t Operation::received_bytes() const noexcept {
  return state_ && state_->done() ? state_->received_bytes() : 0;
}

namespace {

const LinkParameters& slowest_link(const std::vector<int>& hosts, const CostParameters& parameters) {
  const bool one_host = std::all_of(hosts.begin(), hosts.end(), [](int host) { return host == 0; });
  return one_host ? parameters.near : parameters.far;
}

}  // namespace

std::unique_ptr<Communicator> Communicator::create(const std::shared_ptr<Store>& store, Rank rank,
                                                   int world_size, const Options& options) {
  auto named = log::configure(options.config.log_level, rank.value, world_size);
  check_choice(options.config);
  Engine& engine = Engine::process({options.config.spin, options.config.progress_thread});
  std::shared_ptr<Probe> probe;  // ends after the transport
  auto transport = connect(store, rank, world_size, options.timeout, options.config, options.master_host);
  const auto with_baton = [&engine](const std::function<void()>& drive) {
    const auto baton = engine.take_baton();
    drive();
  };
  probe = std::make_shared<Probe>(*transport, with_baton, ProbeCache::process());
  Options agreed = options;
  try {
    agreed.parameters = probe->agree(*store, options.parameters, options.config.probe, options.timeout);
  } catch (...) {
    const auto context = transport->context();  // ends after the baton, and after the messages on it
    const auto baton = engine.take_baton();     // other groups may have the same context polled
    transport.reset();
    throw;
  }
  auto communicator = std::make_unique<Communicator>(std::move(transport), engine, agreed);
  communicator->kept_ = std::move(probe);
  communicator->named_ = std::move(named);
  return communicator;
}

Communicator::Communicator(std::unique_ptr<Transport> transport, Engine& engine, const Options& options)
    : link_bytes_per_second_(slowest_link(transport->hosts(), options.parameters).bytes_per_second()) {
  group_ = std::make_shared<Group>(std::move(transport), engine, options);
}

Communicator::~Communicator() {
  group_->shutdown();
  if (group_->is_here()) return;
  leak(group_);  // the parent's, with all connections that it holds
  leak(kept_);
}

Rank Communicator::rank() const noexcept { return group_->rank(); }
int Communicator::world_size() const noexcept { return group_->world_size(); }
std::size_t Communicator::ranks() const noexcept { return static_cast<std::size_t>(world_size()); }
std::size_t Communicator::place() const noexcept { return static_cast<std::size_t>(rank().value); }
std::string_view Communicator::transport_name() const noexcept { return group_->transport_name(); }
std::uint64_t Communicator::sequence() const noexcept { return group_->sequence(); }
Status Communicator::status() const { return group_->status(); }
void Communicator::set_timeout(std::chrono::milliseconds timeout) { group_->set_timeout(timeout); }
std::chrono::milliseconds Communicator::timeout() const noexcept { return group_->timeout(); }

Operation Communicator::all_reduce(ConstBuffer input, Buffer output, DataType type, ReduceOp op,
                                   const CallOptions& call) {
  const auto count = elements("all_reduce", input.bytes, type);
  require_bytes("all_reduce", "output", output.bytes, input.bytes, "the input has");
  require_no_overlap("all_reduce", input, output, output.data);
  return group_->start({Collective::all_reduce, type, op, 0, count}, {input.data, output.data, call.factor},
                       call);
}

Operation Communicator::broadcast(Buffer buffer, DataType type, Rank root, const CallOptions& call) {
  require_root("broadcast", root, world_size());
  const auto count = elements("broadcast", buffer.bytes, type);
  return group_->start({Collective::broadcast, type, ReduceOp::sum, root.value, count},
                       {buffer.data, buffer.data, 1.0}, call);
}

Operation Communicator::reduce(ConstBuffer input, Buffer output, DataType type, ReduceOp op, Rank root,
                               const CallOptions& call) {
  require_root("reduce", root, world_size());
  const auto count = elements("reduce", input.bytes, type);
  if (rank() == root) {
    require_bytes("reduce", "output", output.bytes, input.bytes, "the input has");
    require_no_overlap("reduce", input, output, output.data);
  }
  return group_->start({Collective::reduce, type, op, root.value, count},
                       {input.data, output.data, call.factor}, call);
}

Operation Communicator::all_gather(ConstBuffer input, Buffer output, DataType type, const CallOptions& call) {
  const auto count = elements("all_gather", input.bytes, type);
  require_bytes("all_gather", "output", output.bytes, ranks() * input.bytes, "world size times the input is");
  require_no_overlap("all_gather", input, output, output.data + place() * input.bytes);
  return group_->start({Collective::all_gather, type, ReduceOp::sum, 0, count},
                       {input.data, output.data, 1.0}, call);
}

Operation Communicator::reduce_scatter(ConstBuffer input, Buffer output, DataType type, ReduceOp op,
                                       const CallOptions& call) {
  const auto count = elements("reduce_scatter", output.bytes, type);
  require_bytes("reduce_scatter", "input", input.bytes, ranks() * output.bytes,
                "world size times the output is");
  require_no_overlap("reduce_scatter", output, input, input.data + place() * output.bytes);
  return group_->start({Collective::reduce_scatter, type, op, 0, count},
                       {input.data, output.data, call.factor}, call);
}

Operation Communicator::gather(ConstBuffer input, Buffer output, DataType type, Rank root,
                               const CallOptions& call) {
  require_root("gather", root, world_size());
  const auto count = elements("gather", input.bytes, type);
  if (rank() == root) {
    require_bytes("gather", "output", output.bytes, ranks() * input.bytes, "world size times the input is");
    require_no_overlap("gather", input, output, output.data + place() * input.bytes);
  }
  return group_->start({Collective::gather, type, ReduceOp::sum, root.value, count},
                       {input.data, output.data, 1.0}, call);
}

Operation Communicator::scatter(ConstBuffer input, Buffer output, DataType type, Rank root,
                                const CallOptions& call) {
  require_root("scatter", root, world_size());
  const auto count = elements("scatter", output.bytes, type);
  if (rank() == root) {
    require_bytes("scatter", "input", input.bytes, ranks() * output.bytes, "world size times the output is");
    require_no_overlap("scatter", output, input, input.data + place() * output.bytes);
  }
  return group_->start({Collective::scatter, type, ReduceOp::sum, root.value, count},
                       {input.data, output.data, 1.0}, call);
}

Operation Communicator::all_to_all(ConstBuffer input, Buffer output, DataType type, const CallOptions& call) {
  const auto count = elements("all_to_all", input.bytes, type);
  require_bytes("all_to_all", "output", output.bytes, input.bytes, "the input has");
  if (count % ranks() != 0) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("all_to_all: {} elements cannot be shared evenly among {} ranks; give a count for "
                    "each, or pad the input",
                    count, ranks()));
  }
  require_no_overlap("all_to_all", input, output, nullptr);
  return group_->start({Collective::all_to_all, type, ReduceOp::sum, 0, count / ranks()},
                       {input.data, output.data, 1.0}, call);
}

Operation Communicator::barrier(const CallOptions& call) {
  return group_->start({Collective::barrier, DataType::uint8, ReduceOp::sum, 0, 0}, {}, call);
}

void Communicator::abort(const Status& why) { group_->abort(why); }
void Communicator::shutdown() { group_->shutdown(); }

}  // namespace ucxring
