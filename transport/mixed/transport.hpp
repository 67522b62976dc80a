// One rank's membership in two transports at once.
#pragma once

#include <string>
#include <vector>

#include "transport/mixed/mixed.hpp"

namespace ucxring::mixed {

class MixedTransport final : public Transport {
 public:
  MixedTransport(std::unique_ptr<Transport> near, std::unique_ptr<Transport> far);

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] Rank rank() const noexcept override { return near_.transport->rank(); }
  [[nodiscard]] int world_size() const noexcept override { return near_.transport->world_size(); }
  [[nodiscard]] const std::shared_ptr<Context>& context() const noexcept override { return context_; }
  Endpoint& endpoint(Rank peer) override;
  [[nodiscard]] std::vector<int> hosts() const override { return hosts_; }
  [[nodiscard]] SharedMemory* shared_memory() noexcept override { return near_.transport->shared_memory(); }
  void set_listener(Listener* listener) override;
  void abort(const Status& why) noexcept override;
  [[nodiscard]] bool flushed() const noexcept override;
  [[nodiscard]] bool take_activity() noexcept override;

 private:
  /// One of the two. Passes on what it hears, but the loss of a peer only where that peer's endpoint is: the
  /// other transport may notice it, too, and has nothing to fail.
  struct Side final : Listener {
    Side(MixedTransport& mixed, std::unique_ptr<Transport> its) : owner(mixed), transport(std::move(its)) {}
    void on_unexpected(Rank peer, Tag tag, Stamp stamp) override;
    void on_control(Rank peer, std::span<const std::byte> message) override;
    void on_peer_lost(Rank peer, const Status& why) override;
    void on_peer_left(Rank peer, const Status& why) override;
    [[nodiscard]] bool waits() const override;

    MixedTransport& owner;
    std::unique_ptr<Transport> transport;
  };

  [[nodiscard]] Side& side_of(Rank peer) noexcept;

  Listener* listener_ = nullptr;
  std::vector<int> hosts_;
  Side near_;
  Side far_;
  std::string name_;
  std::shared_ptr<Context> context_;
};

}  // namespace ucxring::mixed
