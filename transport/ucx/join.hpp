// How the ranks of a group find each other through the store.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "transport/store.hpp"
#include "transport/types.hpp"
#include "transport/ucx/wire.hpp"

namespace ucxring::ucx {

/// What a rank publishes about itself.
struct Member {
  Rank rank;
  int world_size = 0;
  std::string where;               ///< "host node7, pid 4711", for messages
  std::vector<std::byte> address;  ///< of its UCX worker
};

/// What joining gives.
struct Group {
  GroupSecret secret{};
  std::vector<Member> members;  ///< by rank
};

/// Bytes of an entry in the store.
[[nodiscard]] Store::Bytes encode_member(const Member& member);

/// The inverse. Throws `Error` (mismatch) for bytes that are no entry, or of another protocol version.
[[nodiscard]] Member decode_member(std::span<const std::byte> bytes);

/// Publishes this rank's worker address and reads everybody's. Collective over all ranks. A store that holds
/// keys of earlier groups may be used again: each rank counts its joins, and equal counts meet. Throws
/// `Error`: timeout names the ranks that have not come, mismatch a rank that expects another world size or
/// speaks another version.
[[nodiscard]] Group join(Store& store, Rank rank, int world_size, std::chrono::milliseconds timeout,
                         std::span<const std::byte> address);

}  // namespace ucxring::ucx
