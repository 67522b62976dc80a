// Who has heard from whom: what a barrier is about.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace ucxring::symbolic {

/// For each rank, the ranks that it knows, directly or through others, to have entered.
class Hearsay {
 public:
  explicit Hearsay(int world_size);

  /// A message leaves `rank` with all it knows; `message` is any number that names it.
  void send(int rank, std::size_t message);
  /// `rank` learns what the message `message`, which was sent before, carries.
  void receive(int rank, std::size_t message);
  /// The first rank of which `rank` has not heard.
  [[nodiscard]] std::optional<int> unheard(int rank) const;

 private:
  using Set = std::vector<std::uint64_t>;
  std::vector<Set> known_;
  std::unordered_map<std::size_t, Set> travelling_;
};

}  // namespace ucxring::symbolic
