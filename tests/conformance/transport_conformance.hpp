// One suite that every transport passes. To run it for a transport, add a test with
// ucxring_add_transport_conformance (CMakeLists.txt here) of a file that says:
//
//   std::unique_ptr<TransportGroup> make(int world_size);  // all ranks joined, in this process
//   INSTANTIATE_TEST_SUITE_P(Name, TransportConformance,
//                            testing::Values(TransportFactory{"one_thread", false, make},
//                                            TransportFactory{"threads", true, make}), factory_name);
//
// `TransportGroup` holds the transports in rank order. `threaded` polls each rank's context on a thread of
// its own (each rank then needs its own context); otherwise the test's thread polls all contexts in turn.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "transport/transport.hpp"

namespace ucxring::testing {

/// The ranks of one group, made by a factory. Destroyed with its transports; override to keep more alive.
class TransportGroup {
 public:
  virtual ~TransportGroup() = default;
  /// Kills a rank from outside, as if its process died. False where a transport cannot do that inside one
  /// process; the test is then skipped.
  virtual bool kill(Rank /*rank*/) { return false; }

  std::vector<std::unique_ptr<Transport>> transports;
};

struct TransportFactory {
  std::string name;
  bool threaded = false;
  std::function<std::unique_ptr<TransportGroup>(int world_size)> make;
};

/// Name of a parameter for INSTANTIATE_TEST_SUITE_P.
[[nodiscard]] inline std::string factory_name(const ::testing::TestParamInfo<TransportFactory>& test) {
  return test.param.name;
}

/// Drives a group. All calls of a rank's transport and all reads of its completions are made in `on()`.
class DrivenGroup {
 public:
  DrivenGroup(const TransportFactory& factory, int world_size);
  ~DrivenGroup();
  DrivenGroup(const DrivenGroup&) = delete;
  DrivenGroup& operator=(const DrivenGroup&) = delete;

  [[nodiscard]] int world_size() const noexcept { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] TransportGroup& group() noexcept { return *group_; }

  /// Runs `call` with the right to use the transport of `rank`, and returns its result.
  template <typename Call>
  auto on(int rank, Call call) {
    Member& member = *ranks_.at(static_cast<std::size_t>(rank));
    const std::lock_guard lock(member.mutex);
    return call(*member.transport);
  }

  // The same for one post from `rank` to or from `peer`; a refused post fails the test.
  void send(int rank, int peer, std::span<const std::byte> data, Tag tag, Stamp stamp, Completion& done);
  void receive(int rank, int peer, std::span<std::byte> target, Tag tag, Stamp stamp, Completion& done);

  /// Polls until `condition(transport)` holds on `rank`; false after 20 s, or when simulated time has no
  /// event left.
  bool until(int rank, const std::function<bool(Transport&)>& condition);
  /// Polls until `done` of `rank` finished. Fails the test when it does not.
  void finish(int rank, const Completion& done);
  /// `finish`, and fails the test unless the outcome is success.
  void succeed(int rank, const Completion& done);
  /// Polls for a while, so that whatever may still arrive does.
  void settle();

 private:
  struct Member {
    std::mutex mutex;
    Transport* transport = nullptr;
  };
  bool poll();

  std::unique_ptr<TransportGroup> group_;
  std::vector<std::unique_ptr<Member>> ranks_;
  std::vector<std::shared_ptr<Context>> contexts_;  // each once
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// Remembers what it hears. Used by one rank; read it in `DrivenGroup::on`.
class RecordingListener final : public Listener {
 public:
  struct Unexpected {
    int peer;
    Tag tag;
    Stamp stamp;
  };
  void on_unexpected(Rank peer, Tag tag, Stamp stamp) override {
    unexpected.push_back({peer.value, tag, stamp});
  }
  void on_control(Rank peer, std::span<const std::byte> message) override {
    control.emplace_back(peer.value, std::vector<std::byte>(message.begin(), message.end()));
  }
  void on_peer_lost(Rank peer, const Status& why) override { lost.emplace_back(peer.value, why); }
  void on_peer_left(Rank peer, const Status& why) override { left.emplace_back(peer.value, why); }

  std::vector<Unexpected> unexpected;
  std::vector<std::pair<int, std::vector<std::byte>>> control;
  std::vector<std::pair<int, Status>> lost;
  std::vector<std::pair<int, Status>> left;
};

/// `bytes` bytes that depend on `seed` and on their place.
[[nodiscard]] std::vector<std::byte> pattern(std::size_t bytes, unsigned seed);

class TransportConformance : public ::testing::TestWithParam<TransportFactory> {
 protected:
  [[nodiscard]] static std::unique_ptr<DrivenGroup> make(int world_size) {
    return std::make_unique<DrivenGroup>(GetParam(), world_size);
  }
};

}  // namespace ucxring::testing
