#include "transport/mixed/transport.hpp"

#include <fmt/format.h>

#include <utility>

#include "transport/mixed/context.hpp"

namespace ucxring::mixed {

void MixedTransport::Side::on_unexpected(Rank peer, Tag tag, Stamp stamp) {
  owner.listener_->on_unexpected(peer, tag, stamp);
}

void MixedTransport::Side::on_control(Rank peer, std::span<const std::byte> message) {
  owner.listener_->on_control(peer, message);
}

void MixedTransport::Side::on_peer_lost(Rank peer, const Status& why) {
  if (&owner.side_of(peer) == this) owner.listener_->on_peer_lost(peer, why);
}

void MixedTransport::Side::on_peer_left(Rank peer, const Status& why) {
  if (&owner.side_of(peer) == this) owner.listener_->on_peer_left(peer, why);
}

bool MixedTransport::Side::waits() const { return owner.listener_ == nullptr || owner.listener_->waits(); }

MixedTransport::MixedTransport(std::unique_ptr<Transport> near, std::unique_ptr<Transport> far)
    : hosts_(near->hosts()),
      near_(*this, std::move(near)),
      far_(*this, std::move(far)),
      name_(fmt::format("{}+{}", near_.transport->name(), far_.transport->name())),
      context_(context_over(near_.transport->context(), far_.transport->context())) {}

MixedTransport::Side& MixedTransport::side_of(Rank peer) noexcept {
  const auto host_of = [&](Rank member) { return hosts_[static_cast<std::size_t>(member.value)]; };
  return host_of(peer) == host_of(rank()) ? near_ : far_;
}

Endpoint& MixedTransport::endpoint(Rank peer) {
  if (peer.value < 0 || peer.value >= world_size())
    return near_.transport->endpoint(peer);  // which refuses it
  return side_of(peer).transport->endpoint(peer);
}

void MixedTransport::set_listener(Listener* listener) {
  listener_ = listener;
  for (Side* side : {&near_, &far_}) side->transport->set_listener(listener == nullptr ? nullptr : side);
}

void MixedTransport::abort(const Status& why) noexcept {
  near_.transport->abort(why);
  far_.transport->abort(why);
}

bool MixedTransport::flushed() const noexcept {
  return near_.transport->flushed() && far_.transport->flushed();
}

bool MixedTransport::take_activity() noexcept {
  const bool near_active = near_.transport->take_activity();
  const bool far_active = far_.transport->take_activity();
  return near_active || far_active;
}

std::unique_ptr<Transport> create(std::unique_ptr<Transport> near, std::unique_ptr<Transport> far) {
  if (near->rank() != far->rank() || near->world_size() != far->world_size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("mixed: rank {} of {} and rank {} of {} are not one", near->rank().value,
                            near->world_size(), far->rank().value, far->world_size()));
  }
  return std::make_unique<MixedTransport>(std::move(near), std::move(far));
}

}  // namespace ucxring::mixed
