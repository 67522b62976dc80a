#include "transport/ucx/handles.hpp"

namespace ucxring::ucx {

void close_endpoint(ucp_ep_h endpoint) noexcept {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = ucp_ep_close_nbx(endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

}  // namespace ucxring::ucx
