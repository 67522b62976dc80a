// What a rank publishes in the store before the ranks try to share memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/base/token.hpp"
#include "transport/shm/cores.hpp"
#include "transport/store.hpp"
#include "transport/types.hpp"

namespace ucxring::shm {

/// A rank introduces itself.
struct Card {
  int world_size = 0;
  Token door{};             ///< name of its socket
  Token secret{};           ///< what who knocks there must say
  Token machine{};          ///< equal for processes of one kernel, usually; zero when unknown
  bool membarrier = false;  ///< it takes part in global expedited memory barriers
  CpuShare cpus;
  std::string why_closed;  ///< why it shares no memory with anybody; empty when its door is open

  friend bool operator==(const Card&, const Card&) = default;
};

[[nodiscard]] Store::Bytes encode(const Card& card);

/// The inverse. Throws `Error` (mismatch) for bytes that are no card of this version.
[[nodiscard]] Card decode_card(std::span<const std::byte> bytes);

/// A rank that another one has got through to.
struct Contact {
  Rank rank;
  std::uint32_t reads_pool = 0;  ///< 1 when its registered memory has been mapped, too

  friend bool operator==(const Contact&, const Contact&) = default;
};
using Contacts = std::vector<Contact>;

/// A list of contacts as bytes.
[[nodiscard]] Store::Bytes encode(const Contacts& contacts);

/// The inverse. Throws `Error` (mismatch) for bytes that are no list of ranks below `world_size`.
[[nodiscard]] Contacts decode_contacts(std::span<const std::byte> bytes, int world_size);

/// The contact with `rank` in the list; null when there is none.
[[nodiscard]] const Contact* find(const Contacts& contacts, Rank rank) noexcept;

}  // namespace ucxring::shm
