// Making and asking UCP workers.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "transport/ucx/handles.hpp"

namespace ucxring::ucx {

/// A worker that one thread at a time drives. Throws `Error`. `port_range` is the setting that bounds the
/// ports of listening sockets, with its value, for the message when all of them are in use; empty: none does.
[[nodiscard]] UcpWorker make_worker(ucp_context_h context, std::string_view port_range);

/// The address by which other processes reach `worker`.
[[nodiscard]] std::vector<std::byte> address_of(ucp_worker_h worker);

/// Readable when something happened after `ucp_worker_arm`. Belongs to the worker.
[[nodiscard]] int event_fd_of(ucp_worker_h worker);

/// Has UCX call `handler` with `argument` for active messages of `id`.
void set_am_handler(ucp_worker_h worker, unsigned id, ucp_am_recv_callback_t handler, void* argument);

/// Asks, without blocking, whether everything sent over a worker has left this process.
class Flush {
 public:
  /// True when what was sent before the first call of this round has left. The next call begins a new round.
  [[nodiscard]] bool poll(ucp_worker_h worker) noexcept;
  void reset() noexcept { request_.reset(); }

 private:
  UcpRequest request_;
};

}  // namespace ucxring::ucx
