#include "transport/shm/pool.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/base/error.hpp"
#include "transport/base/log.hpp"
#include "transport/shm/memory_left.hpp"

namespace ucxring::shm {
namespace {

constexpr std::size_t kMostRoom = std::size_t{64} << 30;
/// Where addresses are limited (RLIMIT_AS), the pool and the neighbours' leave most of them to the program.
constexpr std::size_t kShareOfAddresses = 16;

/// A file of `bytes` bytes that holds no pages yet.
Descriptor make_sparse_file(std::size_t bytes) {
  Descriptor file = make_memory_file("ucxring-pool");
  if (bytes > file_size_limit() || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    throw Error(
        ErrorCode::transport,
        fmt::format("no registered memory: files of this process are limited to {} bytes (RLIMIT_FSIZE): "
                    "raise it with \"ulimit -f\"",
                    file_size_limit()));
  }
  seal(file, false);
  return file;
}

std::size_t most_room() {
  rlimit addresses{};
  getrlimit(RLIMIT_AS, &addresses);
  std::size_t room = std::min({physical_memory(), kMostRoom, file_size_limit()});
  if (addresses.rlim_cur != RLIM_INFINITY)
    room = std::min<std::size_t>(room, addresses.rlim_cur / kShareOfAddresses);
  return std::max(room / kHugePage * kHugePage, kHugePage);
}

}  // namespace

Pool::Pool(std::size_t bytes)
    : file_(make_sparse_file(bytes)),
      memory_(file_.get(), bytes, Mapping::Access::read_write, kHugePage),
      free_(bytes) {
  madvise(memory_.data(), bytes, MADV_HUGEPAGE);
}

Pool& Pool::make_for_process() noexcept {
  static std::mutex mutex;
  static std::once_flag handler;
  std::call_once(handler, [] {
    pthread_atfork(nullptr, nullptr, [] {
      if (Pool* const parents = of_process.exchange(nullptr)) parents->inherited_ = true;
    });
  });
  const std::lock_guard lock(mutex);
  Pool* pool = of_process.load();
  if (pool == nullptr) {
    pool = make_or_explain();
    of_process.store(pool, std::memory_order_release);
  }
  return *pool;
}

Pool* Pool::make_or_explain() {
  try {
    return new Pool(most_room());
  } catch (const Error& error) {
    log::info("no registered memory: {}", error.what());
    return new Pool(error.status());
  }
}

std::byte* Pool::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  why_empty_.throw_if_error();
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : page_bytes();
  const std::size_t whole = round_up(std::max<std::size_t>(bytes, 1), page_bytes());
  const auto offset = whole < bytes ? std::nullopt : free_.take(whole, alignment);
  if (!offset) {
    throw Error(
        ErrorCode::transport,
        fmt::format("cannot get {} bytes of registered memory: {} of {} bytes are free, {} of them in one "
                    "range: free some, or use ordinary memory",
                    bytes, free_.free_bytes(), memory_.bytes(), free_.largest()));
  }
  try {
    allocate_pages(file_, *offset, whole);
    allocated_.emplace(*offset, whole);
  } catch (...) {
    free_.give_back(*offset, whole);
    throw;
  }
  return memory_.data() + *offset;
}

void Pool::free(std::byte* memory) noexcept {
  if (memory == nullptr || inherited_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  const auto range = allocated_.find(offset_of(memory));
  if (range == allocated_.end()) return;
  const auto [offset, bytes] = *range;
  allocated_.erase(range);
  free_pages(file_, offset, bytes);
  free_.give_back(offset, bytes);
}

std::size_t Pool::used() const {
  const std::lock_guard lock(mutex_);
  return memory_.bytes() - free_.free_bytes();
}

}  // namespace ucxring::shm
