// Endpoints for transports that keep all their state in one object.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <unordered_map>

#include "transport/matcher.hpp"
#include "transport/transport.hpp"

namespace ucxring {

/// An endpoint that hands every call to its owner, with the peer. `Owner` has `post_send`, `post_receive` and
/// `post_control`.
template <typename Owner>
class ForwardingEndpoint final : public Endpoint {
 public:
  ForwardingEndpoint(Owner& owner, Rank peer) noexcept : owner_(owner), peer_(peer) {}

  Status send(ConstBuffer data, Tag tag, Stamp stamp, Completion& done) override {
    return owner_.post_send(peer_, data, tag, stamp, done);
  }
  Status receive_into(Buffer target, Tag tag, Stamp stamp, Completion& done) override {
    return owner_.post_receive(peer_, PostedReceive::into(target, tag, stamp, done));
  }
  Status receive_apply(Sink sink, std::size_t bytes, Tag tag, Stamp stamp, Completion& done) override {
    return owner_.post_receive(peer_, PostedReceive::applying(sink, bytes, tag, stamp, done));
  }
  void send_control(std::span<const std::byte> message) override {
    if (message.size() > kMaxControlBytes) {
      throw Error(ErrorCode::invalid_argument, fmt::format("a control message of {} bytes; at most {} fit",
                                                           message.size(), kMaxControlBytes));
    }
    owner_.post_control(peer_, message);
  }

 private:
  Owner& owner_;
  Rank peer_;
};

/// The endpoints of one transport, made on first use. Costs memory only for peers in use: a simulation has
/// thousands of ranks with few peers each.
template <typename Owner>
class EndpointTable {
 public:
  explicit EndpointTable(int world_size) noexcept : world_size_(world_size) {}

  /// Throws `Error` (invalid_argument) when `peer` is out of range.
  [[nodiscard]] Endpoint& get(Owner& owner, Rank peer) {
    if (peer.value < 0 || peer.value >= world_size_) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("rank {} is not in this group of {}", peer.value, world_size_), peer.value);
    }
    auto& endpoint = endpoints_[peer.value];
    if (!endpoint) endpoint = std::make_unique<ForwardingEndpoint<Owner>>(owner, peer);
    return *endpoint;
  }

  [[nodiscard]] bool made(Rank peer) const { return endpoints_.contains(peer.value); }

 private:
  int world_size_;
  std::unordered_map<int, std::unique_ptr<ForwardingEndpoint<Owner>>> endpoints_;
};

}  // namespace ucxring
