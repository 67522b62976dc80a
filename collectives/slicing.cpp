#include "collectives/slicing.hpp"

#include <algorithm>

namespace ucxring {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kDefaultSlice = std::size_t{256} << 10U;
constexpr int kDefaultWindow = 4;
// Where ranks share memory: two slices of every rank fit into the caches, and any arena has room for a slice.
constexpr std::size_t kLargestSharedSlice = std::size_t{512} << 10U;
constexpr int kSharedWindow = 2;

std::size_t wanted_slice(bool shares_memory, const Config& config) noexcept {
  const std::size_t wanted = config.slice_bytes != 0 ? config.slice_bytes : kDefaultSlice;
  return shares_memory ? std::min(wanted, kLargestSharedSlice) : wanted;
}

Slicing cut(std::size_t chunk_bytes, std::size_t wanted, bool shares_memory, const Config& config) noexcept {
  const std::size_t slice = (wanted + kAlignment - 1) / kAlignment * kAlignment;
  const std::uint64_t lanes = std::max<std::uint64_t>(1, chunk_bytes / slice + (chunk_bytes % slice != 0));
  const int window = config.lanes != 0 ? config.lanes : shares_memory ? kSharedWindow : kDefaultWindow;
  return {slice, lanes, static_cast<int>(std::min(lanes, static_cast<std::uint64_t>(window)))};
}

}  // namespace

Slicing slice_chunks(std::size_t chunk_bytes, bool shares_memory, const Config& config, int widest) noexcept {
  const std::size_t message = wanted_slice(shares_memory, config);
  const std::size_t share = message / static_cast<std::size_t>(widest);
  const std::size_t wanted = widest == 1 ? message : std::max(share / kAlignment * kAlignment, kAlignment);
  return cut(chunk_bytes, std::min(wanted, std::max<std::size_t>(chunk_bytes, 1)), shares_memory, config);
}

Slicing slice_uneven_chunks(std::size_t chunk_bytes, bool shares_memory, const Config& config) noexcept {
  return cut(chunk_bytes, wanted_slice(shares_memory, config), shares_memory, config);
}

bool any_share(std::span<const int> hosts) noexcept {
  // Numbers count from 0 in order of first appearance, so the largest tells how many there are.
  return !hosts.empty() &&
         static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end())) + 1 < hosts.size();
}

}  // namespace ucxring
