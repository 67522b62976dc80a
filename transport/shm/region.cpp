#include "transport/shm/region.hpp"

#include <fmt/format.h>

#include <cstring>

#include "transport/base/error.hpp"

namespace ucxring::shm {
namespace {

/// The bytes in whole pages, and a page for the token.
std::size_t with_token(std::size_t bytes) { return round_up(bytes, page_bytes()) + page_bytes(); }

}  // namespace

Region Region::create(std::size_t bytes, const char* name) {
  Region region;
  const std::size_t all = with_token(bytes);
  region.bytes_ = bytes;
  region.token_ = random_token();
  region.file_ = make_memory_file(name);
  allocate_pages(region.file_, 0, all);
  region.memory_ = Mapping(region.file_.get(), all, Mapping::Access::read_write);
  seal(region.file_, true);
  std::memcpy(region.data() + all - page_bytes(), region.token_.data(), region.token_.size());
  return region;
}

RegionView::RegionView(int fd, std::size_t bytes) : bytes_(bytes) {
  const std::size_t all = with_token(bytes);
  if (all < bytes || !is_sealed(fd, all)) {
    throw Error(ErrorCode::transport,
                fmt::format("no shared memory of {} bytes behind the descriptor", bytes));
  }
  memory_ = Mapping(fd, all, Mapping::Access::read);
}

Token RegionView::token() const noexcept {
  Token token;
  std::memcpy(token.data(), data() + memory_.bytes() - page_bytes(), token.size());
  return token;
}

}  // namespace ucxring::shm
