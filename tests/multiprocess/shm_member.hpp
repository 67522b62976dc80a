// A rank's process in a group over shared memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/support/processes.hpp"

namespace ucxring::testing {

using Clock = std::chrono::steady_clock;
using Numbers = std::span<std::int32_t>;

inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

/// Options of a group over shared memory, without the probe, which most tests do not need.
inline Communicator::Options shm_options(const std::string& transport = "shm") {
  Communicator::Options options;
  options.config.transport = transport;
  options.config.probe = false;
  options.timeout = std::chrono::seconds(30);
  options.master_host = "localhost";
  return options;
}

/// Joins a group of all ranks, or of the first `world_size` ones. Groups need names of their own.
inline std::unique_ptr<Communicator> join(const ProcessRank& process, const Communicator::Options& options,
                                          const std::string& name = "first", int world_size = 0) {
  const auto store = make_file_store(process.directory / ("store." + name));
  return Communicator::create(store, process.rank, world_size > 0 ? world_size : process.world_size, options);
}

inline Buffer bytes_of(Numbers numbers) {
  const auto bytes = std::as_writable_bytes(numbers);
  return {bytes.data(), bytes.size()};
}

/// How an operation is called: by one who waits at once (on the immediate path, if it is small), or not.
enum class Call : std::uint8_t { immediate, asynchronous };

inline CallOptions options_of(Call call) {
  CallOptions options;
  options.wait_soon = call == Call::immediate;
  return options;
}

inline Operation start_sum(Communicator& group, Numbers data, Call call) {
  const Buffer buffer = bytes_of(data);
  return group.all_reduce(buffer, buffer, DataType::int32, ReduceOp::sum, options_of(call));
}

/// All-reduces ones and compares.
inline void check_sum(Communicator& group, std::size_t count = 3, Call call = Call::immediate) {
  std::vector<std::int32_t> data(count, 1);
  start_sum(group, data, call).wait().throw_if_error();
  require(data == std::vector<std::int32_t>(count, group.world_size()), "the sum is wrong");
}

/// Waits for a milestone of another process.
inline void hear(const ProcessRank& process, const std::string& milestone) {
  const auto end = Clock::now() + std::chrono::seconds(30);
  while (!process.heard(milestone)) {
    require(Clock::now() < end, milestone + " was not heard");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// The failure of `call`, whether it throws or returns an operation that fails; ok without one.
template <typename F>
Status failure_of(F call) {
  try {
    return call().wait();
  } catch (const Error& error) {
    return error.status();
  }
}

inline bool mentions(const Status& status, std::string_view text) {
  return status.message().find(text) != std::string_view::npos;
}

/// Throws unless `status` is `code` about `peer`.
inline void require_failure(const Status& status, ErrorCode code, int peer) {
  require(status.code() == code && status.peer() == peer && mentions(status, "rank " + std::to_string(peer)),
          "another failure: " + std::string(to_string(status.code())) + " " + std::string(status.message()));
}

/// Waits until all ranks of `ranks` have ended; how they did.
inline std::vector<int> ends(Processes& ranks, int world_size, std::chrono::seconds limit) {
  std::vector<int> statuses;
  for (int rank = 0; rank < world_size; ++rank) statuses.push_back(ranks.wait(rank, limit));
  return statuses;
}

}  // namespace ucxring::testing
