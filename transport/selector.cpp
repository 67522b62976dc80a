#include "transport/selector.hpp"

#include "transport/ucx/ucx.hpp"

namespace ucxring {

// UCX is the one transport between processes so far; `Config::transport` admits no other.
std::unique_ptr<Transport> connect(const std::shared_ptr<Store>& store, Rank rank, int world_size,
                                   std::chrono::milliseconds timeout, const Config& config,
                                   const std::string& master_host) {
  return ucx::create(ucx::process_context(config, master_host), store, rank, world_size, timeout);
}

}  // namespace ucxring
