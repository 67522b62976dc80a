#include "collectives/algorithms/hierarchical_all_reduce.hpp"

#include <utility>

#include "collectives/algorithms/host_map.hpp"
#include "collectives/algorithms/steps.hpp"

namespace ucxring {
namespace {

/// The owner's part: a ring around the hosts for one shard, which is cut into one part a host.
void reduce_shard(ScheduleBuilder& builder, const HostMap& map, Rank self) {
  const int hosts = map.hosts();
  const int shard = map.index_of(self);
  const auto host = map.ranks(map.own());
  const auto owner_on = [&](int other) { return map.ranks(other)[static_cast<std::size_t>(shard)]; };
  const Rank next = owner_on(map.own() + 1);
  const Rank previous = owner_on(map.own() - 1);
  const auto chunk = [&](int part) { return shard * hosts + map.wrap(part); };
  const auto sum_of_host = [&](int part) {
    if (host.size() == 1) return input(chunk(part));
    fold(builder, host, self, input(chunk(part)), output(chunk(part)));
    return output(chunk(part));
  };

  ChunkRef leaving = sum_of_host(map.own());
  for (int round = 1; round < hosts; ++round) {
    builder.send(next, leaving);
    const ChunkRef sum = sum_of_host(map.own() - round);
    leaving = output(chunk(map.own() - round));
    builder.receive_reduce(previous, sum, leaving);
  }
  builder.completes();

  for (int round = 0; round < hosts; ++round) {
    const ChunkRef finished = output(chunk(map.own() + 1 - round));
    if (round > 0) builder.receive(previous, finished);
    if (round < hosts - 1) builder.send(next, finished);
    publish(builder, host, self, finished);
  }
}

}  // namespace

Schedule hierarchical_all_reduce(const GroupShape& shape) {
  const HostMap map(shape);
  const int hosts = map.hosts();
  const int shards = map.fewest();
  const int index = map.index_of(shape.rank);
  const auto owner = [&](int shard) { return map.ranks(map.own())[static_cast<std::size_t>(shard)]; };
  const auto chunk = [&](int shard, int part) { return shard * hosts + map.wrap(part); };
  ScheduleBuilder builder(shards * hosts, shards * hosts);

  // Parts in the order in which the rings take them. Each rank begins with the shard after its own.
  for (int round = 0; round < hosts; ++round) {
    for (int distance = 1; distance <= shards; ++distance) {
      const int shard = (index + distance) % shards;
      if (shard != index) builder.send(owner(shard), input(chunk(shard, map.own() - round)));
    }
  }
  if (index < shards) reduce_shard(builder, map, shape.rank);
  for (int round = 0; round < hosts; ++round) {
    for (int shard = 0; shard < shards; ++shard) {
      if (shard != index) builder.receive(owner(shard), output(chunk(shard, map.own() + 1 - round)));
    }
  }
  return std::move(builder).build();
}

}  // namespace ucxring
