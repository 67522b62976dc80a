#include "backend/process_group.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <numeric>
#include <utility>

#include "backend/errors.hpp"
#include "backend/store_adapter.hpp"

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
  const char* const variable = std::getenv("MASTER_ADDR");
  return variable == nullptr ? std::string() : std::string(variable);
}

}  // namespace

ProcessGroupUcxring::ProcessGroupUcxring(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                         c10::intrusive_ptr<OptionsUcxring> options, void (*check)())
    : Backend(rank, size), options_(std::move(options)), context_(std::make_shared<GroupContext>()) {
  init();
  context_->rank = rank;
  context_->description = describe_ranks(options_->global_ranks_in_group);
  Communicator::Options joined;
  joined.config = options_->config;
  joined.timeout = options_->timeout;
  joined.name = options_->group_name;
  joined.master_host = master_host(store);
  communicator_ = translate_errors(context_->description, [&] {
    return Communicator::create(adapt_store(store, check), Rank(rank), size, std::move(joined));
  });
  context_->communicator = communicator_;
}

ProcessGroupUcxring::~ProcessGroupUcxring() {
  // The base class needs no shutdown that a constructor which threw has not reached.
  if (communicator_ != nullptr) ProcessGroupUcxring::shutdown();
}

/// Runs `start`; waits in the caller's thread unless `async_op`.
ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::launch(Request request, bool async_op, Start start) {
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
  if (!async_op) return wait_inline(work, *context_);
  context_->pending.add(work);
  if (work->profiled()) context_->futures.submit(work);  // so that the event ends with the operation
  return work;
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
  communicator_->shutdown();  // from here on every operation has ended
  context_->pending.finish_done();
  context_->futures.stop();
}

}  // namespace ucxring
