#include "transport/ucx/status.hpp"

#include <fmt/format.h>

namespace ucxring::ucx {

ErrorCode code_of(ucs_status_t status) noexcept {
  switch (status) {
    case UCS_OK:
      return ErrorCode::ok;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
    case UCS_ERR_NO_DEVICE:
      return ErrorCode::invalid_argument;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
      return ErrorCode::unsupported;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_REJECTED:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_ENDPOINT_TIMEOUT:
      return ErrorCode::peer_lost;
    default:
      return UCS_IS_ENDPOINT_ERROR(status) ? ErrorCode::peer_lost : ErrorCode::transport;
  }
}

Status translate(ucs_status_t status, std::string_view what, int peer) {
  return Status(code_of(status), fmt::format("{}: UCX says \"{}\"", what, ucs_status_string(status)), peer);
}

void check(ucs_status_t status, std::string_view what) {
  if (status != UCS_OK) translate(status, what).throw_if_error();
}

}  // namespace ucxring::ucx
