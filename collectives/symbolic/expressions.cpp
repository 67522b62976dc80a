#include "collectives/symbolic/expressions.hpp"

#include <fmt/format.h>

#include <limits>

namespace ucxring::symbolic {

Expressions::Expressions(int world_size) : world_size_(world_size) {
  nodes_.reserve(static_cast<std::size_t>(world_size) * 2);
  for (int rank = 0; rank < world_size; ++rank) nodes_.push_back({rank, kLeaf, 1});
}

Expressions::Id Expressions::intern(Node node) {
  const auto bits = [](Id id) { return static_cast<std::uint64_t>(static_cast<std::uint32_t>(id)); };
  const std::uint64_t key = (bits(node.left) << 32) | bits(node.right);
  const auto [found, added] = ids_.try_emplace(key, static_cast<Id>(nodes_.size()));
  if (added) nodes_.push_back(node);
  return found->second;
}

Expressions::Id Expressions::part(int rank, int chunk) { return intern({rank, kFirstPart - chunk, 1}); }

Expressions::Id Expressions::combine(Id left, Id right) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t sum = std::uint64_t{size(left)} + size(right);
  return intern({left, right, static_cast<std::uint32_t>(sum < kMost ? sum : kMost)});
}

Expressions::Id Expressions::complete(Id sum) { return intern({sum, kComplete, size(sum)}); }

std::string Expressions::defect(Id id) {
  if (whole_.contains(id)) return {};
  std::vector<bool> seen(static_cast<std::size_t>(world_size_), false);
  std::vector<Id> open{id};
  // An expression may be exponentially large, but one of its first world_size + 1 contributions is a repeated
  // one.
  while (!open.empty()) {
    const Node& top = node(open.back());
    open.pop_back();
    if (top.right == kLeaf) {
      const auto rank = static_cast<std::size_t>(top.left);
      if (seen[rank]) return fmt::format("holds the contribution of rank {} twice", rank);
      seen[rank] = true;
      continue;
    }
    if (top.right != kComplete) open.push_back(top.right);
    open.push_back(top.left);
  }
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    if (!seen[rank]) return fmt::format("misses the contribution of rank {}", rank);
  }
  whole_.insert(id);
  return {};
}

std::string Expressions::text(Id id) const {
  if (id == kNothing) return "nothing";
  const Node& top = node(id);
  if (top.right == kLeaf) return fmt::format("{}", top.left);
  if (top.right == kComplete) return text(top.left);
  if (top.right <= kFirstPart) return fmt::format("{} for {}", top.left, kFirstPart - top.right);
  constexpr std::uint32_t kTooLong = 64;
  if (top.size > kTooLong) return fmt::format("a sum of {} contributions", top.size);
  return fmt::format("({} + {})", text(top.left), text(top.right));
}

}  // namespace ucxring::symbolic
