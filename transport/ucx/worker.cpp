#include "transport/ucx/worker.hpp"

#include <fmt/format.h>

#include "transport/ucx/status.hpp"

namespace ucxring::ucx {

UcpWorker make_worker(ucp_context_h context, std::string_view port_range) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h worker = nullptr;
  const ucs_status_t status = ucp_worker_create(context, &params, &worker);
  if (status == UCS_ERR_BUSY && !port_range.empty()) {
    throw Error(
        ErrorCode::transport,
        fmt::format("all ports of {} are in use on this host: each group takes one for each of its "
                    "ranks here and each network interface. Widen the range; where a program has just "
                    "ended, its ports are free again after a minute",
                    port_range));
  }
  check(status, "making a UCX worker");
  return UcpWorker(worker);
}

std::vector<std::byte> address_of(ucp_worker_h worker) {
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  check(ucp_worker_get_address(worker, &address, &length), "asking a UCX worker for its address");
  const auto* bytes = reinterpret_cast<const std::byte*>(address);
  std::vector<std::byte> copy(bytes, bytes + length);
  ucp_worker_release_address(worker, address);
  return copy;
}

int event_fd_of(ucp_worker_h worker) {
  int descriptor = -1;
  check(ucp_worker_get_efd(worker, &descriptor), "asking a UCX worker for its event descriptor");
  return descriptor;
}

void set_am_handler(ucp_worker_h worker, unsigned id, ucp_am_recv_callback_t handler, void* argument) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                     UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.flags = UCP_AM_FLAG_WHOLE_MSG;
  param.cb = handler;
  param.arg = argument;
  check(ucp_worker_set_am_recv_handler(worker, &param), "registering an active message");
}

bool Flush::poll(ucp_worker_h worker) noexcept {
  if (!request_) {
    ucp_request_param_t param{};
    const ucs_status_ptr_t request = ucp_worker_flush_nbx(worker, &param);
    if (!UCS_PTR_IS_PTR(request)) return true;  // done, or failed for good
    request_ = UcpRequest(request);
  }
  if (ucp_request_check_status(request_.get()) == UCS_INPROGRESS) return false;
  request_.reset();
  return true;
}

}  // namespace ucxring::ucx
