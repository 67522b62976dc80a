#include "collectives/peer_message.hpp"

#include <fmt/format.h>

namespace ucxring {
namespace {

constexpr std::uint32_t kMarker = std::uint32_t{1} << (Tag::kStepBits - 1);
constexpr int kKindShift = Tag::kStepBits - 3;
constexpr std::uint32_t kHighTagMask = 0xfff;
constexpr int kLowTagBits = 20;
static_assert(kLowTagBits == Tag::kLaneBits);

constexpr std::uint64_t kNoCollective = 31;
constexpr int kNoCollectiveShift = 59;
constexpr int kTypeShift = 54;
constexpr std::uint64_t kTypeMask = 31;
constexpr std::uint64_t kBytesMask = (std::uint64_t{1} << 48) - 1;

constexpr std::uint32_t step_of(PeerMessage::Kind kind) noexcept {
  return kMarker | (static_cast<std::uint32_t>(kind) << kKindShift);
}

}  // namespace

Tag PeerMessage::wire_tag(Kind kind) const noexcept {
  const auto bits = static_cast<std::uint32_t>(tag);
  return Tag::make(number, bits, step_of(kind) | (bits >> kLowTagBits));
}

Stamp PeerMessage::stamp() const noexcept {
  return (kNoCollective << kNoCollectiveShift) | (static_cast<std::uint64_t>(type) << kTypeShift) |
         (bytes & kBytesMask);
}

std::uint32_t PeerMessage::data_step() noexcept { return step_of(Kind::data); }

bool PeerMessage::is(Tag tag) noexcept { return (tag.step() & kMarker) != 0; }

PeerMessage::Kind PeerMessage::kind_of(Tag tag) noexcept {
  return static_cast<Kind>((tag.step() >> kKindShift) & 3U);
}

PeerMessage PeerMessage::read(Tag tag, Stamp stamp) noexcept {
  const std::uint32_t bits = ((tag.step() & kHighTagMask) << kLowTagBits) | tag.lane();
  return {tag.sequence(), static_cast<std::int32_t>(bits),
          static_cast<DataType>((stamp >> kTypeShift) & kTypeMask), stamp & kBytesMask};
}

std::uint64_t PeerMessage::full_number(std::uint64_t nearby) const noexcept {
  constexpr std::uint64_t kModulus = std::uint64_t{1} << Tag::kSequenceBits;
  const std::uint64_t ahead = (number - nearby) & (kModulus - 1);
  return ahead < kModulus / 2 ? nearby + ahead : nearby + ahead - kModulus;
}

std::string describe_message(DataType type, std::uint64_t bytes, std::int32_t tag) {
  if (static_cast<int>(type) >= kDataTypes) {
    return fmt::format("unknown type {}, {} bytes, tag {}", static_cast<int>(type), bytes, tag);
  }
  const std::uint64_t count = bytes / size_of(type);
  if (bytes % size_of(type) != 0) return fmt::format("{}, {} bytes, tag {}", to_string(type), bytes, tag);
  return fmt::format("{}, {} element{}, tag {}", to_string(type), count, count == 1 ? "" : "s", tag);
}

}  // namespace ucxring
