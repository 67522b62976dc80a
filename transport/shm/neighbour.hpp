// Another context of this host.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "transport/base/descriptor.hpp"
#include "transport/shm/hello.hpp"
#include "transport/shm/memory_file.hpp"

namespace ucxring::shm {

/// One other context (usually: process) of this host; one object is shared by all groups of this process.
/// Thread-safe.
class Neighbour {
 public:
  /// What came with a hello. For a context of this process `lifeline` and `mapping` are empty: `pool` is this
  /// process's own, or empty without registered memory.
  struct Parts {
    Descriptor doorbell;
    Descriptor lifeline;
    Mapping mapping;
    std::span<const std::byte> pool;
  };
  explicit Neighbour(Parts parts) noexcept : parts_(std::move(parts)) {}

  /// Wakes it.
  void ring() noexcept;
  /// Its registered memory, mapped read-only; null when it has none or it could not be mapped.
  [[nodiscard]] const std::byte* pool() const noexcept { return parts_.pool.data(); }
  [[nodiscard]] std::size_t pool_bytes() const noexcept { return parts_.pool.size(); }
  /// Becomes readable when the process ends; -1 when it lives in this process.
  [[nodiscard]] int death_fd() const noexcept { return parts_.lifeline.get(); }
  /// Whether its process has ended.
  [[nodiscard]] bool dead() const noexcept;

 private:
  Parts parts_;
};

/// The neighbour that introduces itself by `hello` and its descriptors, in the order of `Enclosed`: the one
/// that is known already, so that descriptors and mappings do not grow with the number of groups, or a new
/// one. Thread-safe.
[[nodiscard]] std::shared_ptr<Neighbour> find_or_make_neighbour(const Hello& hello,
                                                                std::vector<Descriptor>& enclosed);

}  // namespace ucxring::shm
