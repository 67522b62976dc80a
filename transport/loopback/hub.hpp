// State that the ranks of a loopback group share.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "transport/loopback/loopback.hpp"
#include "transport/loopback/port.hpp"

namespace ucxring::loopback {

class SharedHub final : public Hub {
 public:
  SharedHub(int world_size, std::vector<int> hosts);

  [[nodiscard]] int world_size() const noexcept override { return static_cast<int>(ports_.size()); }
  void kill(Rank rank) override;
  [[nodiscard]] const std::vector<int>& hosts() const noexcept { return hosts_; }

  /// Takes `rank` for a new transport. Throws when it is out of range or taken.
  void join(Rank rank);
  [[nodiscard]] Port& port(Rank rank) { return ports_[index(rank)]; }

  /// Calls `read()` if both ranks are still in the group and keeps them there meanwhile: `close()` and
  /// `kill()` of either wait for it to return. False, without a call, when one has left.
  template <typename Read>
  bool while_present(Rank a, Rank b, Read read) {
    const std::shared_lock lock(gate_);
    if (members_[index(a)] != Member::present || members_[index(b)] != Member::present) return false;
    read();
    return true;
  }

  /// `rank` leaves; the others are told `why`. Nobody reads its buffers when this returns. Idempotent.
  void close(Rank rank, const Status& why);

 private:
  enum class Member : std::uint8_t { absent, present, gone };

  [[nodiscard]] static std::size_t index(Rank rank) noexcept { return static_cast<std::size_t>(rank.value); }
  void check(Rank rank) const;
  bool mark_gone(Rank rank);

  std::vector<int> hosts_;
  std::deque<Port> ports_;  // a port neither moves nor copies
  std::shared_mutex gate_;
  std::vector<Member> members_;  // under gate_
};

}  // namespace ucxring::loopback
