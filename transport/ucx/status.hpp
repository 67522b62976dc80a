// The one place where UCX statuses become errors of ucxring.
#pragma once

#include <ucs/type/status.h>

#include <string_view>

#include "transport/base/error.hpp"

namespace ucxring::ucx {

/// What kind of failure a UCX status is.
[[nodiscard]] ErrorCode code_of(ucs_status_t status) noexcept;

/// A failure "`what`: UCX says …". `peer` is the rank concerned, -1 when none. `status` must not be UCS_OK.
[[nodiscard]] Status translate(ucs_status_t status, std::string_view what, int peer = -1);

/// Throws `Error` unless `status` is UCS_OK.
void check(ucs_status_t status, std::string_view what);

}  // namespace ucxring::ucx
