// What one process polls and sleeps on for all its groups over shared memory.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/base/descriptor.hpp"
#include "transport/shm/neighbours.hpp"
#include "transport/transport.hpp"

namespace ucxring::shm {

class ShmTransport;

/// Peers ring its doorbell, an eventfd, while it sleeps; a dead peer makes the same epoll descriptor
/// readable. Members may come and go on any thread, but not inside `progress()`.
class ShmContext final : public Context {
 public:
  ShmContext();  ///< throws `Error` (transport) when the system has no descriptors left

  bool progress() override;
  [[nodiscard]] bool arm() override;
  [[nodiscard]] int event_fd() const noexcept override { return epoll_.get(); }

  /// Identity and doorbell, for the meeting with others.
  [[nodiscard]] const Here& here() const noexcept { return here_; }
  /// Peers need not ring any more. Returns whether they would have.
  bool stay_awake() noexcept;

  void add(ShmTransport& member);
  /// When this returns nobody polls `member` any more.
  void remove(ShmTransport& member) noexcept;

 private:
  void disarm() noexcept;
  void drain_doorbell() noexcept;
  bool check_deaths();
  void watch(const std::shared_ptr<Neighbour>& neighbour);
  void unwatch(Neighbour& neighbour) noexcept;

  struct Watched {
    std::shared_ptr<Neighbour> neighbour;
    int groups = 0;
  };

  Descriptor doorbell_;
  Descriptor epoll_;
  Here here_;
  std::mutex mutex_;  // of what follows: a group may be made while another thread drives older ones
  std::vector<ShmTransport*> members_;
  std::map<Neighbour*, Watched> watched_;
  bool armed_ = false;  // written by the driving thread only, under the mutex
  unsigned polls_ = 0;
};

}  // namespace ucxring::shm
