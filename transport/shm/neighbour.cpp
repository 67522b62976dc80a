#include "transport/shm/neighbour.hpp"

#include <poll.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "transport/base/error.hpp"
#include "transport/base/log.hpp"
#include "transport/base/process.hpp"
#include "transport/shm/lifeline.hpp"
#include "transport/shm/pool.hpp"

namespace ucxring::shm {
namespace {

Descriptor& enclosed_as(Enclosed what, std::vector<Descriptor>& enclosed) {
  return enclosed[static_cast<std::size_t>(what)];
}

/// Without it messages from registered memory are copied, which always works.
Mapping map_pool(const Hello& hello, std::vector<Descriptor>& enclosed) {
  if (hello.pool_bytes == 0) return {};
  const int file = enclosed_as(Enclosed::pool, enclosed).get();
  if (!is_sealed(file, hello.pool_bytes)) return {};
  try {
    return {file, hello.pool_bytes, Mapping::Access::read, kHugePage};
  } catch (const Error& error) {
    log::info("registered memory of rank {} is not used: {}", hello.rank.value, error.what());
    return {};
  }
}

Neighbour::Parts parts_of(const Hello& hello, std::vector<Descriptor>& enclosed) {
  Neighbour::Parts parts;
  parts.doorbell = std::move(enclosed_as(Enclosed::doorbell, enclosed));
  if (hello.process == process_lifeline().process) {
    if (hello.pool_bytes > 0) parts.pool = {Pool::process().data(), Pool::process().bytes()};
    return parts;
  }
  parts.lifeline = std::move(enclosed_as(Enclosed::lifeline, enclosed));
  parts.mapping = map_pool(hello, enclosed);
  parts.pool = {parts.mapping.data(), parts.mapping.bytes()};
  return parts;
}

}  // namespace

void Neighbour::ring() noexcept {
  const std::uint64_t once = 1;
  // A full counter has woken it already, and a dead neighbour need not wake.
  [[maybe_unused]] const ssize_t written = write(parts_.doorbell.get(), &once, sizeof(once));
}

bool Neighbour::dead() const noexcept {
  if (!parts_.lifeline) return false;
  pollfd lifeline{parts_.lifeline.get(), POLLIN, 0};
  return poll(&lifeline, 1, 0) > 0;
}

std::shared_ptr<Neighbour> find_or_make_neighbour(const Hello& hello, std::vector<Descriptor>& enclosed) {
  struct Shared {
    std::mutex mutex;
    std::map<Token, std::weak_ptr<Neighbour>> known;
  };
  static PerProcess<Shared> of_process;
  Shared& shared = of_process.get();
  const std::lock_guard lock(shared.mutex);
  std::erase_if(shared.known, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Neighbour>& entry = shared.known[hello.context];
  std::shared_ptr<Neighbour> neighbour = entry.lock();
  if (!neighbour) {
    neighbour = std::make_shared<Neighbour>(parts_of(hello, enclosed));
    entry = neighbour;
  }
  return neighbour;
}

}  // namespace ucxring::shm
