// Groups inside one test process: ranks as threads over loopback, or all ranks in one thread over the
// simulator.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collectives/communicator.hpp"
#include "transport/sim/sim.hpp"

namespace ucxring::testing {

/// Options for tests: short deadline, so that a hang fails instead of blocking.
[[nodiscard]] Communicator::Options test_options();

/// Runs `body` for each of `world_size` ranks on a thread of its own, over loopback, each with its own
/// engine. Rethrows the first exception of any rank after all have ended. `hosts` as of `Transport::hosts()`.
void run_on_threads(int world_size, const Communicator::Options& options,
                    const std::function<void(Communicator&)>& body, const std::vector<int>& hosts = {});

/// The same over any transport: `join` makes that of a rank, on the rank's thread.
void run_on_threads(int world_size, const std::function<std::unique_ptr<Transport>(Rank)>& join,
                    const Communicator::Options& options, const std::function<void(Communicator&)>& body);

/// All ranks of a simulated group, driven by the calling thread.
class SimulatedGroup {
 public:
  SimulatedGroup(const sim::Options& network, const Communicator::Options& options);
  SimulatedGroup(int world_size, const Communicator::Options& options);

  [[nodiscard]] int world_size() const noexcept { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] Communicator& rank(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] sim::World& network() noexcept { return *world_; }

  /// Starts `call` on every rank, then waits for all. Returns each rank's outcome.
  std::vector<Status> run(const std::function<Operation(Communicator&)>& call);

 private:
  std::shared_ptr<sim::World> world_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

}  // namespace ucxring::testing
