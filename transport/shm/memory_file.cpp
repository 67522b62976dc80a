#include "transport/shm/memory_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "transport/base/error.hpp"
#include "transport/shm/memory_left.hpp"

namespace ucxring::shm {
namespace {

/// Of Linux 6.3; some systems refuse memory files without it.
constexpr unsigned kNoExecSeal = 0x8;
/// Below this, reading what is left costs more than it is worth.
constexpr std::size_t kSmall = std::size_t{1} << 20;
/// fallocate starts anew after a signal, so large ranges go in parts.
constexpr std::size_t kPart = std::size_t{64} << 20;

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

[[noreturn]] void refuse(std::size_t bytes, const std::string& why) {
  throw Error(ErrorCode::transport, fmt::format("cannot get {} bytes ({:.1f} MiB) of shared memory: {}",
                                                bytes, mebibytes(bytes), why));
}

void check_limits(std::size_t end, std::size_t bytes) {
  if (const std::size_t limit = file_size_limit(); end > limit) {
    refuse(bytes, fmt::format("files of this process are limited to {} bytes (RLIMIT_FSIZE): raise it with "
                              "\"ulimit -f\"",
                              limit));
  }
  if (bytes < kSmall) return;
  const MemoryLeft left = memory_left();
  if (bytes > left.bytes) {
    refuse(bytes, fmt::format("the {} leaves {:.1f} MiB: free some, or ask for less", left.bound,
                              mebibytes(left.bytes)));
  }
}

[[noreturn]] void refuse_mapping(std::size_t bytes, int error) {
  throw Error(ErrorCode::transport,
              fmt::format("cannot map {:.1f} MiB of shared memory: {}; is the address space "
                          "limited (ulimit -v)?",
                          mebibytes(bytes), std::strerror(error)));
}

/// Addresses for `bytes` bytes that nobody uses.
void* reserve_addresses(std::size_t bytes, std::size_t alignment) {
  const std::size_t room = bytes + alignment;
  void* const start = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) refuse_mapping(bytes, errno);
  auto* const begin = static_cast<std::byte*>(start);
  const auto place = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t before = round_up(place, alignment) - place;
  const std::size_t after = room - before - round_up(bytes, page_bytes());
  if (before > 0) munmap(begin, before);
  if (after > 0) munmap(begin + room - after, after);
  return begin + before;
}

}  // namespace

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

Descriptor make_memory_file(const char* name) {
  int descriptor = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal);
  if (descriptor < 0 && errno == EINVAL) descriptor = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) {
    const bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    throw Error(scarce ? ErrorCode::transport : ErrorCode::unsupported,
                fmt::format("no shared memory: memfd_create: {}", std::strerror(errno)));
  }
  return Descriptor(descriptor);
}

std::size_t file_size_limit() noexcept {
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<std::size_t>::max() : limit.rlim_cur;
}

void allocate_pages(const Descriptor& file, std::size_t offset, std::size_t bytes) {
  constexpr std::size_t kMost = std::numeric_limits<off_t>::max() / 2;
  if (bytes > kMost) refuse(bytes, "no machine has so much");
  check_limits(offset + bytes, bytes);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(kPart, bytes - done);
    if (fallocate(file.get(), 0, static_cast<off_t>(offset + done), static_cast<off_t>(part)) == 0) {
      done += part;
    } else if (errno != EINTR) {
      const int error = errno;
      free_pages(file, offset, done);
      const bool scarce = error == ENOMEM || error == ENOSPC;
      refuse(bytes,
             fmt::format("{}{}", std::strerror(error), scarce ? ": free some memory, or ask for less" : ""));
    }
  }
}

void free_pages(const Descriptor& file, std::size_t offset, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  while (fallocate(file.get(), mode, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return;
  }
}

void seal(const Descriptor& file, bool writable_by_owner_only) {
  // Older kernels (before 5.1) lack the latter; readers map read-only by themselves then.
  if (writable_by_owner_only) fcntl(file.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    throw Error(ErrorCode::transport, fmt::format("cannot seal shared memory: {}", std::strerror(errno)));
  }
}

bool is_sealed(int descriptor, std::size_t bytes) noexcept {
  struct stat about {};
  const int seals = fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(descriptor, &about) == 0 &&
         static_cast<std::size_t>(about.st_size) >= bytes;
}

Mapping::Mapping(int descriptor, std::size_t bytes, Access access, std::size_t alignment) {
  const int protection = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const address = reserve_addresses(bytes, alignment);
  const int flags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED;
  if (mmap(address, bytes, protection, flags, descriptor, 0) == MAP_FAILED) {
    const int error = errno;
    munmap(address, bytes);
    refuse_mapping(bytes, error);
  }
  data_ = static_cast<std::byte*>(address);
  bytes_ = bytes;
  madvise(address, bytes, MADV_DONTDUMP);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace ucxring::shm
