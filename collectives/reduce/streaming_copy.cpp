#include "collectives/reduce/streaming_copy.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/streaming_copy.cpp"
#include "hwy/foreach_target.h"

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ucxring {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// `bytes` is a multiple of the line, to which `to` is aligned.
void stream_lines(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const hn::CappedTag<std::uint8_t, kLine> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t line = 0; line < bytes; line += kLine) {
    for (std::size_t i = line; i < line + kLine; i += lanes) hn::Stream(hn::LoadU(d, from + i), d, to + i);
  }
  hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace ucxring
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ucxring {

HWY_EXPORT(stream_lines);

namespace {

constexpr std::size_t kLine = 64;
/// Where the system does not tell.
constexpr std::size_t kUsualCache = std::size_t{32} << 20U;
/// A virtual machine may be told of a cache that it shares with many others.
constexpr std::size_t kLargestTrusted = std::size_t{128} << 20U;

/// Of the first core; not `sysconf`, which on some processors adds up caches that no core reaches together.
std::size_t find_largest_cache() {
  std::size_t largest = 0;
  std::error_code error;
  for (const auto& cache : std::filesystem::directory_iterator("/sys/devices/system/cpu/cpu0/cache", error)) {
    std::size_t kibibytes = 0;  // written as "32768K"
    std::ifstream(cache.path() / "size") >> kibibytes;
    largest = std::max(largest, kibibytes << 10U);
  }
  return largest > 0 ? std::min(largest, kLargestTrusted) : kUsualCache;
}

}  // namespace

void streaming_copy(void* to, const void* from, std::size_t bytes) noexcept {
  auto* target = static_cast<std::uint8_t*>(to);
  const auto* source = static_cast<const std::uint8_t*>(from);
  const std::size_t to_line = (kLine - reinterpret_cast<std::uintptr_t>(target) % kLine) % kLine;
  const std::size_t head = std::min(bytes, to_line);
  const std::size_t tail = (bytes - head) % kLine;
  if (head != 0) std::memcpy(target, source, head);
  if (tail != 0) std::memcpy(target + bytes - tail, source + bytes - tail, tail);
  HWY_DYNAMIC_DISPATCH(stream_lines)(target + head, source + head, bytes - head - tail);
}

std::size_t largest_cache_bytes() {
  static const std::size_t bytes = find_largest_cache();
  return bytes;
}

}  // namespace ucxring
#endif
