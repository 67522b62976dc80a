#include "collectives/collective.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ucxring {
namespace {

constexpr int kUnevenShift = 63;
constexpr int kTypeShift = 54;
constexpr int kCollectiveShift = 59;
constexpr int kOpShift = 50;
constexpr int kRootShift = 38;
constexpr std::uint64_t kCountMask = (std::uint64_t{1} << kRootShift) - 1;

constexpr std::uint64_t field(std::uint64_t bits, int shift, int width) noexcept {
  return (bits >> shift) & ((std::uint64_t{1} << width) - 1);
}

// A stamp may come from a peer of another version, so each name may be unknown.
std::string name_of(DataType type) {
  if (static_cast<int>(type) >= kDataTypes) return fmt::format("unknown type {}", static_cast<int>(type));
  return std::string(to_string(type));
}

std::string name_of(ReduceOp op) {
  if (static_cast<int>(op) >= kReduceOps) return fmt::format("unknown op {}", static_cast<int>(op));
  return std::string(to_string(op));
}

}  // namespace

std::string_view to_string(Collective collective) noexcept {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::reduce:
      return "reduce";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::gather:
      return "gather";
    case Collective::scatter:
      return "scatter";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::barrier:
      return "barrier";
  }
  return "unknown collective";
}

Stamp Fingerprint::pack() const noexcept {
  const auto place = [](auto value, int shift, int width) {
    return field(static_cast<std::uint64_t>(value), 0, width) << shift;
  };
  return place(uneven, kUnevenShift, 1) | place(collective, kCollectiveShift, 4) |
         place(type, kTypeShift, 5) | place(op, kOpShift, 4) | place(root, kRootShift, 12) |
         (count & kCountMask);
}

Fingerprint Fingerprint::unpack(Stamp stamp) noexcept {
  return {.collective = static_cast<Collective>(field(stamp, kCollectiveShift, 4)),
          .type = static_cast<DataType>(field(stamp, kTypeShift, 5)),
          .op = static_cast<ReduceOp>(field(stamp, kOpShift, 4)),
          .root = static_cast<int>(field(stamp, kRootShift, 12)),
          .count = stamp & kCountMask,
          .uneven = field(stamp, kUnevenShift, 1) != 0};
}

std::string Fingerprint::describe(std::string_view sizes) const {
  if (collective == Collective::barrier) return "barrier()";
  std::string text = fmt::format("{}(", to_string(collective));
  if (reduces(collective)) text += fmt::format("{}, ", name_of(op));
  text += name_of(type);
  if (!uneven) {
    text += fmt::format(", {} element{}", count, count == 1 ? "" : "s");
  } else if (!sizes.empty()) {
    text += fmt::format(", {}", sizes);
  } else {
    text += count == 0 ? ", own sizes" : ", uneven sizes";
  }
  if (is_rooted(collective)) text += fmt::format(", root {}", root);
  return text + ")";
}

std::uint64_t counts_stamp(std::span<const std::size_t> counts) noexcept {
  std::uint64_t hash = counts.size();
  for (const std::size_t count : counts) {
    // The mixing step of SplitMix64 (Steele, Lea, Flood, 2014).
    hash = (hash ^ count) + 0x9e3779b97f4a7c15U;
    hash = (hash ^ (hash >> 30U)) * 0xbf58476d1ce4e5b9U;
    hash = (hash ^ (hash >> 27U)) * 0x94d049bb133111ebU;
    hash ^= hash >> 31U;
  }
  return std::max<std::uint64_t>(hash & kCountMask, 1);
}

}  // namespace ucxring
