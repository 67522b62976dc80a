// Sends and receives of a group.
#include <fmt/format.h>

#include <utility>

#include "collectives/group.hpp"

namespace ucxring {

Operation Group::start(const PeerCall& peer_call, const CallOptions& call) {
  if (!is_here()) is_elsewhere().throw_if_error();
  const auto operation = std::make_shared<PeerOperation>(peer_call);
  {
    const auto baton = engine_.take_baton();
    if (!alive()) refuse(peer_call.describe());
    const auto timeout = call.timeout.count() > 0 ? call.timeout : this->timeout();
    operation->begin_at(++peer_sequence_, context_->now(), timeout);
    operation->set_waiting(engine_, context_->event_fd() < 0 ? context_.get() : nullptr);
    peers_.start(operation);
    if (!peer_call.sends || !peers_.trouble().ok()) advance_peers();
  }
  if (!call.wait_soon && !operation->done()) engine_.kick();
  return Operation(operation);
}

bool Group::advance_peers() {
  const bool moved = peers_.advance();
  dirty_ |= moved;  // what waits for a look at passed-over messages says so by having moved
  const Status& trouble = peers_.trouble();
  if (trouble.ok()) return moved;
  report(named(trouble), rank_.value,
         trouble.code() == ErrorCode::peer_lost ? grace(trouble.peer()) : Duration{});
  return settle_failures(context_->now());
}

/// The failure of a send or receive, with the group's name.
Status Group::named(const Status& trouble) const {
  return {trouble.code(), fmt::format("group '{}': {}", name_, trouble.message()), trouble.peer()};
}

void Group::on_peer_left(Rank peer, const Status& why) {
  peers_.left(peer, why);
  dirty_ = true;
}

}  // namespace ucxring
