// Owners of UCX handles. Each raw release call appears here once.
#pragma once

#include <ucp/api/ucp.h>

#include "transport/base/unique_handle.hpp"

namespace ucxring::ucx {

/// Closes an endpoint at once, without a handshake: what is still queued completes as cancelled.
void close_endpoint(ucp_ep_h endpoint) noexcept;

using UcpConfig = UniqueHandle<ucp_config_t*, &ucp_config_release>;
using UcpContext = UniqueHandle<ucp_context_h, &ucp_cleanup>;
using UcpWorker = UniqueHandle<ucp_worker_h, &ucp_worker_destroy>;
using UcpEndpoint = UniqueHandle<ucp_ep_h, &close_endpoint>;

/// An operation of UCX without a callback, polled for its end. Dropping it lets the operation finish
/// unobserved.
using UcpRequest = UniqueHandle<void*, &ucp_request_free>;

/// Data of an active message that outlived its callback: eager bytes, or the offer of a rendezvous.
class AmData {
 public:
  AmData() noexcept = default;
  AmData(ucp_worker_h worker, void* data) noexcept : worker_(worker), data_(data) {}
  AmData(AmData&& other) noexcept : worker_(other.worker_), data_(other.release()) {}
  AmData& operator=(AmData&& other) noexcept {
    reset();
    worker_ = other.worker_;
    data_ = other.release();
    return *this;
  }
  AmData(const AmData&) = delete;
  AmData& operator=(const AmData&) = delete;
  ~AmData() { reset(); }

  [[nodiscard]] void* get() const noexcept { return data_; }
  [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }
  /// Gives ownership away: `ucp_am_recv_data_nbx` takes it.
  [[nodiscard]] void* release() noexcept { return std::exchange(data_, nullptr); }
  void reset() noexcept {
    if (data_ != nullptr) ucp_am_data_release(worker_, std::exchange(data_, nullptr));
  }

 private:
  ucp_worker_h worker_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace ucxring::ucx
