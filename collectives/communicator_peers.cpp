// Sends and receives between two ranks.
#include <fmt/format.h>

#include "collectives/arguments.hpp"
#include "collectives/communicator.hpp"
#include "collectives/group.hpp"

namespace ucxring {

namespace {

void require_member(std::string_view what, Rank peer, int world_size) {
  if (peer.value >= 0 && peer.value < world_size) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("{} rank {}, which is not a rank of this group of {}",
                                                       what, peer.value, world_size));
}

}  // namespace

Operation Communicator::send(ConstBuffer data, DataType type, Rank peer, std::int32_t tag,
                             const CallOptions& call) {
  require_member("send to", peer, world_size());
  static_cast<void>(arguments::elements("send", data.bytes, type));
  // The buffer of a send is only read.
  const Buffer buffer{const_cast<std::byte*>(data.data), data.bytes, data.kind};
  return group_->start({.sends = true, .peer = peer, .tag = tag, .type = type, .buffer = buffer}, call);
}

Operation Communicator::receive(Buffer buffer, DataType type, Rank peer, std::int32_t tag,
                                const CallOptions& call) {
  require_member("receive from", peer, world_size());
  static_cast<void>(arguments::elements("receive", buffer.bytes, type));
  return group_->start({.peer = peer, .tag = tag, .type = type, .buffer = buffer}, call);
}

Operation Communicator::receive_any(Buffer buffer, DataType type, std::int32_t tag, const CallOptions& call) {
  static_cast<void>(arguments::elements("receive", buffer.bytes, type));
  return group_->start({.tag = tag, .type = type, .buffer = buffer}, call);
}

}  // namespace ucxring
