#include "collectives/symbolic/hearsay.hpp"

namespace ucxring::symbolic {
namespace {

constexpr std::size_t kWordBits = 64;

}  // namespace

Hearsay::Hearsay(int world_size) {
  const auto ranks = static_cast<std::size_t>(world_size);
  known_.assign(ranks, Set((ranks + kWordBits - 1) / kWordBits, 0));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    known_[rank][rank / kWordBits] |= std::uint64_t{1} << (rank % kWordBits);
  }
}

void Hearsay::send(int rank, std::size_t message) {
  travelling_[message] = known_[static_cast<std::size_t>(rank)];
}

void Hearsay::receive(int rank, std::size_t message) {
  const auto carried = travelling_.extract(message);
  Set& known = known_[static_cast<std::size_t>(rank)];
  for (std::size_t word = 0; word < known.size(); ++word) known[word] |= carried.mapped()[word];
}

std::optional<int> Hearsay::unheard(int rank) const {
  const Set& known = known_[static_cast<std::size_t>(rank)];
  for (std::size_t other = 0; other < known_.size(); ++other) {
    if (((known[other / kWordBits] >> (other % kWordBits)) & 1) == 0) return static_cast<int>(other);
  }
  return {};
}

}  // namespace ucxring::symbolic
