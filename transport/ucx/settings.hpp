// Settings handed to UCX. Whatever the user set in a UCX_* variable stays as it is.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "transport/base/config.hpp"
#include "transport/ucx/handles.hpp"

namespace ucxring::ucx {

/// Whether the environment variable of this full name is set.
using IsSet = std::function<bool(const std::string& name)>;

/// How messages are cut and which protocol carries them.
struct Protocol {
  std::size_t fragment_bytes;  ///< longer messages go as several active messages of this size
  bool always_eager;  ///< shorter ones than `rendezvous_bytes` never wait for the receiver; else UCX decides
  std::size_t rendezvous_bytes;  ///< messages of at least this size go by rendezvous, unfragmented
};

/// The protocol that measured best for the transports `config` names (docs/adr/0003-ucx-tcp-settings.md).
[[nodiscard]] Protocol choose_protocol(const Config& config);

/// Makes the UCP context. Throws `Error`: invalid_argument for a device that does not exist, else what UCX
/// says. `master_host` picks the device when `config` names none, see `route_device`.
[[nodiscard]] UcpContext make_ucp_context(const Config& config, const std::string& master_host,
                                          const IsSet& is_set);

}  // namespace ucxring::ucx
