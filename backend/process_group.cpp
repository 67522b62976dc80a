#include "backend/process_group.hpp"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "backend/ending.hpp"
#include "backend/errors.hpp"
#include "backend/registered_tensor.hpp"
#include "backend/store_adapter.hpp"
#include "transport/base/config.hpp"

namespace ucxring {
namespace {

/// For messages about a subgroup, whose ranks are not the numbers that the user knows his processes by.
std::string describe_ranks(const std::vector<std::uint64_t>& global_ranks) {
  constexpr std::size_t kMost = 32;
  std::vector<std::uint64_t> same(global_ranks.size());
  std::iota(same.begin(), same.end(), 0);
  if (global_ranks == same || global_ranks.size() > kMost) return {};
  return fmt::format("ranks of this group are the global ranks {} in this order",
                     fmt::join(global_ranks, ", "));
}

std::string master_host(const c10::intrusive_ptr<c10d::Store>& store) {
  std::string host = host_of(store);
  if (!host.empty()) return host;
  return environment_variable("MASTER_ADDR").value_or("");
}

}  // namespace

ProcessGroupUcxring::ProcessGroupUcxring(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                         c10::intrusive_ptr<OptionsUcxring> options, void (*check)())
    : Backend(rank, size),
      options_(std::move(options)),
      check_(check),
      context_(std::make_shared<GroupContext>()) {
  init();
  context_->rank = rank;
  context_->name = options_->group_name;
  context_->description = describe_ranks(options_->global_ranks_in_group);
  Communicator::Options joined;
  joined.config = options_->config;
  joined.timeout = options_->timeout;
  joined.name = options_->group_name;
  joined.master_host = master_host(store);
  translate_errors(context_->description, [&] {
    const auto adapted = adapt_store(store, check);
    communicator_ = Communicator::create(adapted, Rank(rank), size, joined);
    monitored_barrier_ = std::make_unique<MonitoredBarrier>(adapted, rank, size);
  });
  context_->communicator = communicator_;
}

ProcessGroupUcxring::~ProcessGroupUcxring() {
  // The base class needs no shutdown that a constructor which threw has not reached.
  if (communicator_ != nullptr) ProcessGroupUcxring::shutdown();
}

at::Tensor ProcessGroupUcxring::allocateTensor(long size, at::TensorOptions options) {
  if (!options.device().is_cpu()) {
    throw_invalid_argument(fmt::format(
        "allocate_tensor: the device is {}, but memory is there on the CPU alone", options.device().str()));
  }
  return empty_registered({size}, c10::typeMetaToScalarType(options.dtype()));
}

std::shared_ptr<c10::Allocator> ProcessGroupUcxring::getMemAllocator() {
  return {&registered_allocator(), [](c10::Allocator*) {}};  // it lives as long as the process
}

/// Runs `start`; waits in the caller's thread unless `async_op`.
ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::launch(Request request, bool async_op, Start start) {
  const EndingGuard guard;
  context_->require_here();
  context_->pending.finish_done();
  CallOptions call;
  call.timeout = request.timeout;
  call.wait_soon = !async_op;
  auto work = c10::make_intrusive<WorkUcxring>(context_, std::move(request));
  translate_errors(context_->description, [&] {
    try {
      start(*work, work->request(), call);
    } catch (...) {
      // Operations that were started still use the tensors.
      if (!work->operations().empty()) context_->pending.add(work);
      throw;
    }
  });
  // So that its end is noticed when it happens.
  const bool watched = context_->observed.load() || (async_op && work->profiled());
  if (watched) context_->futures.submit(work);
  if (!async_op) return wait_inline(work, *context_);
  context_->pending.add(work);
  coalescing_.add(work);
  return work;
}

bool ProcessGroupUcxring::run_bare(bool async_op, TensorRefs tensors, std::chrono::milliseconds timeout,
                                   StartOne start) {
  const EndingGuard guard;
  const bool packed =
      std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) { return is_packed(tensor); });
  const bool bare = !async_op && !at::hasCallbacks() && packed && !context_->observed.load();
  context_->require_here();
  if (!bare) return false;
  context_->pending.finish_done();
  CallOptions call;
  call.timeout = timeout;
  call.wait_soon = true;
  const Operation operation = translate_errors(context_->description, [&] { return start(call); });
  Status status;
  try {
    status = operation.wait();
  } catch (...) {  // Python interrupts the wait: the operation goes on and keeps its tensors
    Request request;
    request.inputs.assign(tensors.begin(), tensors.end());
    auto work = c10::make_intrusive<WorkUcxring>(context_, std::move(request));
    work->add(operation);
    context_->pending.add(std::move(work));
    throw;
  }
  if (!status.ok()) std::rethrow_exception(to_torch_exception(status, context_->description));
  return true;
}

/// When Python interrupts the wait, the operation goes on and keeps its tensors.
ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::wait_inline(const c10::intrusive_ptr<WorkUcxring>& work,
                                                              GroupContext& context) {
  try {
    work->wait(kNoTimeout);
  } catch (...) {
    if (!work->ready()) context.pending.add(work);
    throw;
  }
  return nullptr;
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::barrier(const c10d::BarrierOptions& opts) {
  Request request;
  request.title = "ucxring:barrier";
  request.type = c10d::OpType::BARRIER;
  request.timeout = opts.timeout;
  request.after_earlier = true;
  context_->require_here();
  const auto earlier = context_->pending.operations();
  return launch(std::move(request), opts.asyncOp, [&](WorkUcxring& work, const Request&, CallOptions call) {
    Operation barrier = communicator_->barrier(call);
    for (const Operation& operation : earlier) work.add(operation);
    work.add(std::move(barrier));
  });
}

void ProcessGroupUcxring::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  communicator_->set_timeout(timeout);
}

c10d::ErrorType ProcessGroupUcxring::getError() {
  switch (communicator_->status().code()) {
    case ErrorCode::ok:
      return c10d::ErrorType::SUCCESS;
    case ErrorCode::timeout:
      return c10d::ErrorType::TIMEOUT;
    case ErrorCode::peer_lost:
      return c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

void ProcessGroupUcxring::abort() {
  communicator_->abort(Status(ErrorCode::transport,
                              fmt::format("rank {} aborted group '{}'", getRank(), options_->group_name)));
}

void ProcessGroupUcxring::shutdown() {
  if (!context_->owner.is_here()) return;  // the parent's
  communicator_->shutdown();               // from here on every operation has ended
  context_->pending.finish_all_done();
  context_->futures.stop();
}

}  // namespace ucxring
