// Mixed: one transport between the ranks of a host, another one between hosts.
#pragma once

#include <memory>

#include "transport/transport.hpp"

namespace ucxring::mixed {

/// Joins two transports of the same rank in the same group: peers that `near->hosts()` puts on this rank's
/// host, and the rank itself, are reached through `near`, all others through `far`. The context polls both;
/// several groups over the same two contexts share one. Nothing else may drive these contexts or call these
/// transports any more. Throws `Error` (invalid_argument) when the two differ in rank or world size, or run
/// in virtual time.
[[nodiscard]] std::unique_ptr<Transport> create(std::unique_ptr<Transport> near,
                                                std::unique_ptr<Transport> far);

}  // namespace ucxring::mixed
