// The transport over shared memory, both sides in one thread: what a message costs, without any waiting.
#include <benchmark/benchmark.h>

#include <stdexcept>
#include <vector>

#include "bench/micro/shm_group.hpp"

namespace ucxring::bench {
namespace {

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}

/// One rank publishes to all others, which find the message and give it back.
void publish(benchmark::State& state) {
  const auto readers = static_cast<int>(state.range(1));
  const auto ranks = make_shm_group(readers + 1);
  SharedMemory& sender = *ranks[0]->shared_memory();
  std::vector<SharedMemory*> others;
  std::vector<Recipient> recipients;
  for (int rank = 1; rank <= readers; ++rank) {
    others.push_back(ranks[static_cast<std::size_t>(rank)]->shared_memory());
    recipients.push_back({Rank(rank), 0});
  }
  const std::vector<std::byte> data(static_cast<std::size_t>(state.range(0)));
  std::uint64_t sequence = 0;
  for (auto _ : state) {
    const Tag tag = Tag::make(++sequence, 0, 0);
    if (!sender.publish({data.data(), data.size()}, recipients, tag, 0)) {
      throw std::runtime_error("no room for a message although all were read");
    }
    for (SharedMemory* reader : others) {
      benchmark::DoNotOptimize(reader->peek(Rank(0), tag).data);
      reader->release(Rank(0), tag);
    }
  }
  count_bytes(state);
}
BENCHMARK(publish)->ArgNames({"bytes", "readers"})->ArgsProduct({{8, 1024, 65536, 1 << 20}, {1, 3}});

/// A message by way of endpoints: sent, received into a buffer.
void send_and_receive(benchmark::State& state) {
  const auto ranks = make_shm_group(2);
  Endpoint& to_reader = ranks[0]->endpoint(Rank(1));
  Endpoint& from_sender = ranks[1]->endpoint(Rank(0));
  const std::vector<std::byte> data(static_cast<std::size_t>(state.range(0)));
  std::vector<std::byte> target(data.size());
  std::uint64_t sequence = 0;
  for (auto _ : state) {
    Completion sent, received;
    const Tag tag = Tag::make(++sequence, 0, 0);
    to_reader.send({data.data(), data.size()}, tag, 0, sent).throw_if_error();
    from_sender.receive_into({target.data(), target.size()}, tag, 0, received).throw_if_error();
    while (!sent.finished() || !received.finished()) {
      for (const auto& rank : ranks) rank->context()->progress();
    }
  }
  count_bytes(state);
}
BENCHMARK(send_and_receive)->ArgName("bytes")->Arg(8)->Arg(1024)->Arg(65536)->Arg(4 << 20);

/// A look at all queues that finds nothing.
void idle_progress(benchmark::State& state) {
  const auto ranks = make_shm_group(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(ranks[0]->context()->progress());
}
BENCHMARK(idle_progress)->ArgName("ranks")->Arg(2)->Arg(8);

}  // namespace
}  // namespace ucxring::bench
