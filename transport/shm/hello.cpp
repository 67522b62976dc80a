#include "transport/shm/hello.hpp"

#include <cstring>

namespace ucxring::shm {
namespace {

constexpr std::uint64_t kMagic = 0x6f6c6c6568727875;  // "uxrhello"
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 46;  // half of what a process can address

struct Wire {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::int32_t rank = -1;
  Token secret;
  Token context;
  Token process;
  Token region;
  std::uint64_t outbox_bytes = 0;
  std::uint64_t pool_bytes = 0;
};
static_assert(sizeof(Wire) <= kHelloBytes);

}  // namespace

std::vector<std::byte> encode(const Hello& hello) {
  Wire wire;
  wire.rank = hello.rank.value;
  wire.secret = hello.secret;
  wire.context = hello.context;
  wire.process = hello.process;
  wire.region = hello.region;
  wire.outbox_bytes = hello.outbox_bytes;
  wire.pool_bytes = hello.pool_bytes;
  std::vector<std::byte> bytes(sizeof(wire));
  std::memcpy(bytes.data(), &wire, sizeof(wire));
  return bytes;
}

std::optional<Hello> decode_hello(std::span<const std::byte> bytes, std::size_t descriptors) {
  Wire wire;
  if (bytes.size() != sizeof(wire)) return std::nullopt;
  std::memcpy(&wire, bytes.data(), sizeof(wire));
  const std::size_t enclosed = wire.pool_bytes > 0 ? kHelloDescriptors : kHelloDescriptors - 1;
  const bool sound = wire.magic == kMagic && wire.version == kVersion && wire.rank >= 0 &&
                     descriptors == enclosed && wire.outbox_bytes > 0 && wire.outbox_bytes < kMostBytes &&
                     wire.pool_bytes < kMostBytes;
  if (!sound) return std::nullopt;
  return Hello{Rank(wire.rank), wire.secret,       wire.context,   wire.process,
               wire.region,     wire.outbox_bytes, wire.pool_bytes};
}

}  // namespace ucxring::shm
