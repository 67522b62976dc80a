// Reused objects at fixed addresses.
#pragma once

#include <cstddef>
#include <deque>

namespace ucxring::ucx {

/// Hands out objects whose addresses stay valid and takes them back; allocates only when more are in use at
/// once than ever before. `T` is default constructible and keeps its state between uses. Not thread-safe.
template <typename T>
class ObjectPool {
 public:
  [[nodiscard]] T& take() {
    if (free_ == nullptr) {
      nodes_.emplace_back();
      nodes_.back().next = nullptr;
      free_ = &nodes_.back();
    }
    Node* node = free_;
    free_ = node->next;
    node->used = true;
    ++used_;
    return node->object;
  }

  void give_back(T& object) noexcept {
    Node* node =
        reinterpret_cast<Node*>(&object);  // `object` is the first member of a standard-layout prefix
    node->used = false;
    node->next = free_;
    free_ = node;
    --used_;
  }

  [[nodiscard]] std::size_t used() const noexcept { return used_; }

  /// Calls `visit(T&)` for each object in use; it may give that object back.
  template <typename Visit>
  void for_each_used(Visit visit) {
    for (Node& node : nodes_) {
      if (node.used) visit(node.object);
    }
  }

 private:
  struct Node {
    T object;
    Node* next = nullptr;
    bool used = false;
  };
  std::deque<Node> nodes_;
  Node* free_ = nullptr;
  std::size_t used_ = 0;
};

}  // namespace ucxring::ucx
