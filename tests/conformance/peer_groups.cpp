#include "tests/conformance/peer_groups.hpp"

#include <utility>

#include "transport/store.hpp"

namespace ucxring::testing {

PeerGroups peer_groups(std::string name, const MakeJoin& make_join) {
  return {std::move(name), make_join,
          [make_join](int world_size, const Communicator::Options& options,
                      const std::function<void(Communicator&)>& body) {
            run_on_threads(world_size, make_join(make_memory_store(), world_size), options, body);
          }};
}

Bytes numbered(std::size_t bytes, int source, int tag) {
  Bytes data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<std::byte>(
        (i * 31 + (i >> 9U) + static_cast<std::size_t>(source) * 101 + static_cast<std::size_t>(tag) * 7) &
        0xff);
  }
  return data;
}

Bytes receive(Communicator& group, std::size_t bytes, int source, std::int32_t tag) {
  Bytes data(bytes);
  group.receive(buffer_of(data), DataType::uint8, Rank(source), tag).wait().throw_if_error();
  return data;
}

}  // namespace ucxring::testing
