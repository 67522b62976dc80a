#include "transport/shm/free_list.hpp"

#include <iterator>

#include "transport/shm/memory_file.hpp"

namespace ucxring::shm {

FreeList::FreeList(std::size_t bytes) : free_bytes_(bytes) { add(0, bytes); }

std::optional<std::size_t> FreeList::take(std::size_t bytes, std::size_t alignment) {
  for (auto fit = by_size_.lower_bound({bytes, 0}); fit != by_size_.end(); ++fit) {
    const auto [size, begin] = *fit;
    const std::size_t end = begin + size;
    const std::size_t start = round_up(begin, alignment);
    if (start + bytes > end) continue;
    remove(by_place_.find(begin));
    add(begin, start - begin);
    add(start + bytes, end - (start + bytes));
    free_bytes_ -= bytes;
    return start;
  }
  return std::nullopt;
}

void FreeList::give_back(std::size_t offset, std::size_t bytes) {
  free_bytes_ += bytes;
  auto after = by_place_.lower_bound(offset);
  if (after != by_place_.end() && after->first == offset + bytes) {
    bytes += after->second;
    after = remove(after);
  }
  if (after != by_place_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      remove(before);
    }
  }
  add(offset, bytes);
}

void FreeList::add(std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  by_place_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

FreeList::Places::iterator FreeList::remove(Places::iterator range) {
  by_size_.erase({range->second, range->first});
  return by_place_.erase(range);
}

}  // namespace ucxring::shm
