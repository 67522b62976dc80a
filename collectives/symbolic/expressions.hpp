// The values of a symbolic run: sums of contributions, each expression stored once.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace ucxring::symbolic {

/// A pool of expressions over the contributions of `world_size` ranks. Equal expressions have equal ids, so
/// comparing ids compares results bit for bit: floating-point addition is neither associative nor assumed to
/// commute.
class Expressions {
 public:
  using Id = std::int32_t;
  static constexpr Id kNothing = -1;  ///< a chunk nobody has written

  explicit Expressions(int world_size);

  /// The contribution of `rank`, which must be in range.
  [[nodiscard]] Id contribution(int rank) const noexcept { return rank; }
  /// What `rank` holds for the rank `chunk`: a contribution where each rank has another one for each.
  [[nodiscard]] Id part(int rank, int chunk);
  /// left ⊕ right
  [[nodiscard]] Id combine(Id left, Id right);
  /// `sum`, marked as finished: where an average has been divided.
  [[nodiscard]] Id complete(Id sum);
  [[nodiscard]] bool is_complete(Id id) const noexcept { return node(id).right == kComplete; }

  /// Contributions in the expression, counted as often as they occur (saturating).
  [[nodiscard]] std::uint32_t size(Id id) const noexcept { return node(id).size; }

  /// What keeps `id` from holding every contribution exactly once: "holds the contribution of rank 3 twice",
  /// "misses the contribution of rank 3"; empty when nothing does. Remembers what it found whole.
  [[nodiscard]] std::string defect(Id id);

  /// "(0 + 1) + 2"-like text of a small expression.
  [[nodiscard]] std::string text(Id id) const;

 private:
  struct Node {
    Id left;
    Id right;  ///< kLeaf, kComplete, a part (kFirstPart − chunk), or an expression
    std::uint32_t size;
  };
  static constexpr Id kLeaf = -2;
  static constexpr Id kComplete = -3;
  static constexpr Id kFirstPart = -4;

  [[nodiscard]] const Node& node(Id id) const noexcept { return nodes_[static_cast<std::size_t>(id)]; }
  Id intern(Node node);

  int world_size_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, Id> ids_;
  std::unordered_set<Id> whole_;
};

}  // namespace ucxring::symbolic
