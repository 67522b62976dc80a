// Groups over every transport for tests of sends and receives, and messages that can be told apart.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/support/ranks.hpp"
#include "transport/store.hpp"

namespace ucxring::testing {

using Bytes = std::vector<std::byte>;

/// Makes what makes the transport of each rank of one group.
using Join = std::function<std::unique_ptr<Transport>(Rank)>;
using MakeJoin = std::function<Join(const std::shared_ptr<Store>& store, int world_size)>;

/// How to run ranks over one transport.
struct PeerGroups {
  std::string name;
  MakeJoin make_join;
  /// Runs `body` on a thread for each rank, as `run_on_threads`.
  std::function<void(int world_size, const Communicator::Options& options,
                     const std::function<void(Communicator&)>& body)>
      run;
};
inline void PrintTo(const PeerGroups& groups, std::ostream* out) { *out << groups.name; }

[[nodiscard]] PeerGroups peer_groups(std::string name, const MakeJoin& make_join);

/// The transports of this test program.
[[nodiscard]] std::vector<PeerGroups> all_peer_groups();

/// Bytes that depend on who sends what.
[[nodiscard]] Bytes numbered(std::size_t bytes, int source, int tag);

[[nodiscard]] inline Buffer buffer_of(Bytes& bytes) { return {bytes.data(), bytes.size()}; }
[[nodiscard]] inline Operation send(Communicator& group, const Bytes& bytes, int peer, std::int32_t tag) {
  return group.send(ConstBuffer(bytes.data(), bytes.size()), DataType::uint8, Rank(peer), tag);
}
/// Waits for a message of `bytes` bytes.
[[nodiscard]] Bytes receive(Communicator& group, std::size_t bytes, int source, std::int32_t tag);

/// The failure of `call`; ok without one.
template <typename Call>
[[nodiscard]] Status failure_of(Call call) {
  try {
    call();
    return {};
  } catch (const Error& error) {
    return error.status();
  }
}

}  // namespace ucxring::testing
