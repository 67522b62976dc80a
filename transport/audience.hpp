// Who hears of what a transport learns, also of what it learns before anybody listens.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "transport/transport.hpp"

namespace ucxring {

/// The listener of a transport. Peers may send as soon as they have joined, and another group on the context
/// may have it polled: what comes before the first listener is set is remembered and told to that one. Each
/// function `on_…` is a call of `Listener` and returns whether it was made now. Not thread-safe.
class Audience {
 public:
  /// As `Transport::set_listener`; returns whether `listener` was told anything.
  bool set(Listener* listener) {
    listener_ = listener;
    const auto missed = std::exchange(missed_, {});
    const bool tells = !std::exchange(was_set_, true) && listener != nullptr && !missed.empty();
    if (!tells) return false;
    for (const auto& tell : missed) tell(*listener);
    return true;
  }

  bool on_unexpected(Rank peer, Tag tag, Stamp stamp) {
    return tell([=](Listener& listener) { listener.on_unexpected(peer, tag, stamp); });
  }
  bool on_control(Rank peer, std::span<const std::byte> message) {
    if (listener_ == nullptr && !was_set_) {
      return tell([peer, copy = std::vector<std::byte>(message.begin(), message.end())](Listener& listener) {
        listener.on_control(peer, copy);
      });
    }
    return tell([=](Listener& listener) { listener.on_control(peer, message); });
  }
  bool on_peer_lost(Rank peer, const Status& why) {
    return tell([peer, why](Listener& listener) { listener.on_peer_lost(peer, why); });
  }
  bool on_peer_left(Rank peer, const Status& why) {
    return tell([peer, why](Listener& listener) { listener.on_peer_left(peer, why); });
  }
  /// As `Listener::waits`.
  [[nodiscard]] bool waits() const { return listener_ == nullptr || listener_->waits(); }

 private:
  template <typename Call>
  bool tell(Call call) {
    if (listener_ != nullptr) {
      call(*listener_);
      return true;
    }
    if (!was_set_) missed_.emplace_back(std::move(call));
    return false;
  }

  Listener* listener_ = nullptr;
  bool was_set_ = false;
  std::vector<std::function<void(Listener&)>> missed_;  // before the first listener
};

}  // namespace ucxring
