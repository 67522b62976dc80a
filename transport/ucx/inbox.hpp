// Messages on their way in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/matcher.hpp"
#include "transport/ucx/buffer_pool.hpp"
#include "transport/ucx/group_state.hpp"
#include "transport/ucx/object_pool.hpp"

namespace ucxring::ucx {

/// Brings arriving data to posted receives, in place where it can, and keeps what comes early.
class Inbox {
 public:
  explicit Inbox(GroupState& group);
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// Posts a receive; with `peer_failure` only a message that is already here can meet it, otherwise the post
  /// fails.
  Status post(Rank peer, const PostedReceive& receive, const Status& peer_failure);

  /// What UCX's active-message callback got: bytes at `data`, or with UCP_AM_RECV_ATTR_FLAG_RNDV in
  /// `attributes` an offer of them. Returns what that callback must return.
  ucs_status_t arrive(Rank source, const DataHeader& header, void* data, std::size_t length,
                      std::uint64_t attributes);
  /// A message of this rank to itself, readable during the call.
  void arrive_local(Tag tag, Stamp stamp, std::span<const std::byte> bytes);

  /// Fails what is posted to `peer`. Whole messages of `peer` that are already here stay receivable.
  void fail_peer(Rank peer, const Status& why);
  /// Fails everything posted and drops everything kept. Rendezvous under way are cancelled and end later,
  /// through UCX's callback or `fail_cancelled`.
  void fail_all(const Status& why);
  /// Fails the cancelled rendezvous once the worker is gone.
  void fail_cancelled(const Status& why) noexcept;

  /// Whether a receive waits or a transfer is under way.
  [[nodiscard]] bool busy() const noexcept {
    return matcher_.posted() > 0 || transfers_.used() > 0 || open_ > 0;
  }
  [[nodiscard]] std::size_t transfers() const noexcept { return transfers_.used(); }

 private:
  struct Payload {
    PooledBuffer copy;
    AmData held;              // eager bytes or a rendezvous offer that UCX keeps for us
    bool rendezvous = false;  // what `held` is
  };
  using Message = UnexpectedMessage<Payload>;

  /// A message of several fragments, of which some are here.
  struct Partial {
    enum class Fate : std::uint8_t { none, deliver, stage, drop };
    Fate fate = Fate::none;
    DataHeader header;
    std::size_t received = 0;
    PostedReceive receive;  // with Fate::deliver
    PooledBuffer staged;    // with Fate::stage
  };

  /// A rendezvous that UCX carries out.
  struct Transfer {
    Inbox* inbox = nullptr;
    Rank peer;
    PostedReceive receive;
    PooledBuffer staged;  // for receives that apply a sink
    void* request = nullptr;
  };

  ucs_status_t arrive_whole(Rank source, const DataHeader& header, void* data, std::size_t length,
                            std::uint64_t attributes);
  void arrive_fragment(Rank source, const DataHeader& header, std::span<const std::byte> bytes);
  void begin_partial(Partial& partial, Rank source, const DataHeader& header);
  void end_partial(Partial& partial, Rank source);
  void finish(const PostedReceive& receive) noexcept;
  void meet(Rank peer, const PostedReceive& receive, Message message);
  void keep(Message message);
  void start_transfer(Rank peer, const PostedReceive& receive, void* offer);
  void end_transfer(Transfer& transfer, ucs_status_t status) noexcept;
  static void on_transferred(void* request, ucs_status_t status, std::size_t length,
                             void* user_data) noexcept;

  GroupState& group_;
  BufferPool buffers_;  // before everything that holds buffers of it
  Matcher<Payload> matcher_;
  std::vector<Partial> partials_;  // by source
  std::size_t open_ = 0;           // partials with a fate
  ObjectPool<Transfer> transfers_;
};

}  // namespace ucxring::ucx
