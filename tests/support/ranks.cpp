#include "tests/support/ranks.hpp"

#include <exception>
#include <mutex>
#include <thread>

#include "transport/loopback/loopback.hpp"

namespace ucxring::testing {

Communicator::Options test_options() {
  Communicator::Options options;
  options.timeout = std::chrono::seconds(60);
  return options;
}

void run_on_threads(int world_size, const Communicator::Options& options,
                    const std::function<void(Communicator&)>& body, const std::vector<int>& hosts) {
  const auto hub = loopback::make_hub(world_size, hosts);
  run_on_threads(
      world_size, [&](Rank rank) { return loopback::create(hub, rank); }, options, body);
}

void run_on_threads(int world_size, const std::function<std::unique_ptr<Transport>(Rank)>& join,
                    const Communicator::Options& options, const std::function<void(Communicator&)>& body) {
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Engine engine({std::chrono::microseconds(20), false});
        Communicator communicator(join(Rank(rank)), engine, options);
        body(communicator);
        communicator.barrier().wait().throw_if_error();  // nobody leaves while others still need it
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

SimulatedGroup::SimulatedGroup(const sim::Options& network, const Communicator::Options& options)
    : world_(sim::make_world(network)),
      engine_(std::make_unique<Engine>(Engine::Options{std::chrono::microseconds(0), false})) {
  for (int rank = 0; rank < network.world_size; ++rank) {
    ranks_.push_back(std::make_unique<Communicator>(sim::create(world_, Rank(rank)), *engine_, options));
  }
}

SimulatedGroup::SimulatedGroup(int world_size, const Communicator::Options& options)
    : SimulatedGroup(
          [&] {
            sim::Options network;
            network.world_size = world_size;
            return network;
          }(),
          options) {}

std::vector<Status> SimulatedGroup::run(const std::function<Operation(Communicator&)>& call) {
  std::vector<Operation> operations;
  operations.reserve(ranks_.size());
  for (auto& rank : ranks_) operations.push_back(call(*rank));
  std::vector<Status> outcomes;
  outcomes.reserve(ranks_.size());
  for (auto& operation : operations) outcomes.push_back(operation.wait());
  return outcomes;
}

}  // namespace ucxring::testing
