#include "tests/conformance/transport_conformance.hpp"

#include <algorithm>
#include <chrono>

namespace ucxring::testing {

namespace {

constexpr auto kPatience = std::chrono::seconds(20);

}  // namespace

DrivenGroup::DrivenGroup(const TransportFactory& factory, int world_size) : group_(factory.make(world_size)) {
  for (const auto& transport : group_->transports) {
    ranks_.push_back(std::make_unique<Member>());
    ranks_.back()->transport = transport.get();
    const auto& context = transport->context();
    if (std::find(contexts_.begin(), contexts_.end(), context) == contexts_.end())
      contexts_.push_back(context);
  }
  if (!factory.threaded) return;
  for (const auto& member : ranks_) {
    threads_.emplace_back([this, &rank = *member] {
      while (!stop_) {
        {
          const std::lock_guard lock(rank.mutex);
          rank.transport->context()->progress();
        }
        std::this_thread::yield();
      }
    });
  }
}

DrivenGroup::~DrivenGroup() {
  stop_ = true;
  for (auto& thread : threads_) thread.join();
}

void DrivenGroup::send(int rank, int peer, std::span<const std::byte> data, Tag tag, Stamp stamp,
                       Completion& done) {
  const Status status = on(rank, [&](Transport& transport) {
    return transport.endpoint(Rank(peer)).send(ConstBuffer(data.data(), data.size()), tag, stamp, done);
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

void DrivenGroup::receive(int rank, int peer, std::span<std::byte> target, Tag tag, Stamp stamp,
                          Completion& done) {
  const Status status = on(rank, [&](Transport& transport) {
    return transport.endpoint(Rank(peer)).receive_into({target.data(), target.size()}, tag, stamp, done);
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

bool DrivenGroup::poll() {
  if (!threads_.empty()) {
    std::this_thread::yield();
    return true;
  }
  bool moved = false;
  for (const auto& context : contexts_) moved |= context->progress();
  const bool time_passes = std::any_of(contexts_.begin(), contexts_.end(),
                                       [](const auto& context) { return context->event_fd() >= 0; });
  return moved || time_passes;
}

bool DrivenGroup::until(int rank, const std::function<bool(Transport&)>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!on(rank, condition)) {
    if (!poll()) return on(rank, condition);
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

void DrivenGroup::finish(int rank, const Completion& done) {
  EXPECT_TRUE(until(rank, [&](Transport&) { return done.finished(); })) << "rank " << rank << " still waits";
}

void DrivenGroup::succeed(int rank, const Completion& done) {
  finish(rank, done);
  on(rank, [&](Transport&) {
    EXPECT_EQ(done.state, Completion::State::done) << "rank " << rank << ": " << done.status.message();
  });
}

void DrivenGroup::settle() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  while (std::chrono::steady_clock::now() < end && poll()) {
  }
}

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> result(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    result[i] = static_cast<std::byte>((i * 31 + i / 251 + seed * 97) & 0xff);
  return result;
}

}  // namespace ucxring::testing
