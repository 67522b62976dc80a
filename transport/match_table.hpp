// Hash table from (peer, tag) to a value that neither allocates nor frees once it has reached its largest
// size.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "transport/types.hpp"

namespace ucxring {

/// Values keyed by (peer, tag). Equal keys are allowed and leave in the order they came. Insertion and
/// removal cost O(1) on average; nodes live in one flat vector and are reused, so steady use does not
/// allocate. `Value` must be default constructible and movable. Not thread-safe.
template <typename Value>
class MatchTable {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  void insert(Rank peer, Tag tag, Value value) {
    if (size_ >= buckets_.size()) grow();
    const std::uint32_t index = allocate();
    nodes_[index] = Node{tag, peer, kNone, std::move(value)};
    append(index);
    ++size_;
  }

  /// Removes and returns the oldest value under (peer, tag).
  [[nodiscard]] std::optional<Value> take(Rank peer, Tag tag) {
    if (size_ == 0) return std::nullopt;
    for (std::uint32_t* link = &bucket(peer, tag); *link != kNone; link = &nodes_[*link].next) {
      const Node& node = nodes_[*link];
      if (node.tag == tag && node.peer == peer) return unlink(*link);
    }
    return std::nullopt;
  }

  /// The oldest value under (peer, tag), null when there is none. Valid until the next insertion or removal.
  [[nodiscard]] const Value* find(Rank peer, Tag tag) const {
    if (size_ == 0) return nullptr;
    for (std::uint32_t at = buckets_[slot(peer, tag)]; at != kNone; at = nodes_[at].next) {
      if (nodes_[at].tag == tag && nodes_[at].peer == peer) return &nodes_[at].value;
    }
    return nullptr;
  }
  /// Whether a value under (peer, tag) exists.
  [[nodiscard]] bool contains(Rank peer, Tag tag) const { return find(peer, tag) != nullptr; }

  /// Removes every value for which `wanted(peer)` holds and hands it to `consume(peer, tag, value)`, which
  /// must not use this table.
  template <typename Wanted, typename Consume>
  void extract_if(Wanted wanted, Consume consume) {
    for (std::uint32_t& head : buckets_) {
      std::uint32_t* link = &head;
      while (*link != kNone) {
        const Node& node = nodes_[*link];
        if (!wanted(node.peer)) {
          link = &nodes_[*link].next;
          continue;
        }
        const Rank peer = node.peer;
        const Tag tag = node.tag;
        consume(peer, tag, unlink(*link));
      }
    }
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::size_t kFirstBuckets = 64;

  struct Node {
    Tag tag;
    Rank peer;
    std::uint32_t next = kNone;
    Value value{};
  };

  // Finaliser of MurmurHash3 (Austin Appleby, public domain): tags differ in few low bits, which it spreads.
  [[nodiscard]] std::size_t slot(Rank peer, Tag tag) const noexcept {
    std::uint64_t hash = tag.bits() ^ (static_cast<std::uint64_t>(peer.value) * 0x9e3779b97f4a7c15ULL);
    hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdULL;
    hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return static_cast<std::size_t>(hash ^ (hash >> 33)) & (buckets_.size() - 1);
  }
  [[nodiscard]] std::uint32_t& bucket(Rank peer, Tag tag) { return buckets_[slot(peer, tag)]; }

  void append(std::uint32_t index) {
    std::uint32_t* link = &bucket(nodes_[index].peer, nodes_[index].tag);
    while (*link != kNone) link = &nodes_[*link].next;
    *link = index;
  }

  Value unlink(std::uint32_t& link) {
    const std::uint32_t index = link;
    Node& node = nodes_[index];
    link = node.next;
    node.next = free_;
    free_ = index;
    --size_;
    return std::exchange(node.value, Value{});
  }

  std::uint32_t allocate() {
    if (free_ == kNone) {
      nodes_.emplace_back();
      return static_cast<std::uint32_t>(nodes_.size() - 1);
    }
    return std::exchange(free_, nodes_[free_].next);
  }

  void grow() {
    const std::vector<std::uint32_t> old = std::move(buckets_);
    buckets_.assign(old.empty() ? kFirstBuckets : old.size() * 2, kNone);
    for (const std::uint32_t head : old) {
      for (std::uint32_t at = head; at != kNone;) {
        const std::uint32_t next = std::exchange(nodes_[at].next, kNone);
        append(at);
        at = next;
      }
    }
  }

  std::vector<std::uint32_t> buckets_;
  std::vector<Node> nodes_;
  std::uint32_t free_ = kNone;
  std::size_t size_ = 0;
};

}  // namespace ucxring
