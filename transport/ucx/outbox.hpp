// Messages on their way out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/ucx/group_state.hpp"
#include "transport/ucx/object_pool.hpp"

namespace ucxring::ucx {

class UcxEndpoint;

/// Sends data and control messages and writes their completions. No allocation in steady state.
class Outbox {
 public:
  explicit Outbox(GroupState& group) noexcept : group_(group) {}
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  /// As `Endpoint::send`, over the connected UCP endpoint of `peer`.
  Status send(UcxEndpoint& peer, ConstBuffer data, Tag tag, Stamp stamp, Completion& done);
  Status send_control(UcxEndpoint& peer, ControlKind kind, std::span<const std::byte> message);

  /// Messages that UCX has not finished with.
  [[nodiscard]] std::size_t outstanding() const noexcept { return fragments_.used() + controls_.used(); }
  /// Data messages among them, or parts of such.
  [[nodiscard]] std::size_t outstanding_data() const noexcept { return fragments_.used(); }
  /// Closes the endpoints over which data is still under way, which cancels it.
  void close_unfinished() noexcept;
  /// Messages ever handed to UCX; grows with each.
  [[nodiscard]] std::uint64_t posted() const noexcept { return posted_; }
  /// Fails what is outstanding, once the worker is gone and no callback can come.
  void fail_all(const Status& why) noexcept;

 private:
  /// An active message with a part of a data message. The first one of a message counts for all.
  struct Fragment {
    DataHeader header;
    Outbox* outbox = nullptr;
    UcxEndpoint* peer = nullptr;
    Fragment* first = nullptr;
    Completion* done = nullptr;   // of the first
    std::size_t unfinished = 0;   // of the first
    ucs_status_t worst = UCS_OK;  // of the first
  };
  struct Control {
    ControlHeader header;
    Outbox* outbox = nullptr;
    std::array<std::byte, Endpoint::kMaxControlBytes> data;
  };

  Fragment& make_fragment(UcxEndpoint& peer, const DataHeader& header, Fragment* first);
  ucs_status_t post(Fragment& fragment, const std::byte* data, std::size_t bytes);
  void finish(Fragment& fragment, ucs_status_t status) noexcept;
  static void on_sent(void* request, ucs_status_t status, void* user_data) noexcept;
  static void on_control_sent(void* request, ucs_status_t status, void* user_data) noexcept;

  GroupState& group_;
  ObjectPool<Fragment> fragments_;
  ObjectPool<Control> controls_;
  std::uint64_t posted_ = 0;
};

}  // namespace ucxring::ucx
