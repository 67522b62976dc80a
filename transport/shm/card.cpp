#include "transport/shm/card.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "transport/base/error.hpp"

namespace ucxring::shm {
namespace {

constexpr std::uint32_t kVersion = 1;

/// Fixed part; the words of the mask and the text follow.
struct Head {
  std::uint32_t version = kVersion;
  std::int32_t world_size = 0;
  Token door;
  Token secret;
  Token machine;
  double quota = 0;
  std::uint64_t quota_id = 0;
  std::uint32_t membarrier = 0;
  std::uint32_t mask_words = 0;
};

[[noreturn]] void refuse() { throw Error(ErrorCode::mismatch, "a rank published a malformed entry"); }

Head read_head(std::span<const std::byte> bytes) {
  Head head;
  if (bytes.size() < sizeof(head)) refuse();
  std::memcpy(&head, bytes.data(), sizeof(head));
  if (head.version != kVersion) {
    throw Error(ErrorCode::mismatch,
                fmt::format("a rank speaks version {} of ucxring's shared-memory protocol, this "
                            "one version {}: install the same ucxring everywhere",
                            head.version, kVersion));
  }
  return head;
}

}  // namespace

Store::Bytes encode(const Card& card) {
  Head head;
  head.world_size = card.world_size;
  head.door = card.door;
  head.secret = card.secret;
  head.machine = card.machine;
  head.quota = card.cpus.quota;
  head.quota_id = card.cpus.quota_id;
  head.membarrier = card.membarrier ? 1 : 0;
  head.mask_words = static_cast<std::uint32_t>(card.cpus.mask.size());
  const auto head_bytes = std::as_bytes(std::span(&head, 1));
  const auto mask = std::as_bytes(std::span(card.cpus.mask));
  const auto text = std::as_bytes(std::span(card.why_closed));
  Store::Bytes bytes(head_bytes.begin(), head_bytes.end());
  bytes.insert(bytes.end(), mask.begin(), mask.end());
  bytes.insert(bytes.end(), text.begin(), text.end());
  return bytes;
}

Card decode_card(std::span<const std::byte> bytes) {
  const Head head = read_head(bytes);
  const auto rest = bytes.subspan(sizeof(head));
  if (head.mask_words > rest.size() / sizeof(std::uint64_t)) refuse();
  const auto text = rest.subspan(head.mask_words * sizeof(std::uint64_t));
  Card card{head.world_size, head.door, head.secret, head.machine, head.membarrier != 0, {}, {}};
  card.cpus = {std::vector<std::uint64_t>(head.mask_words), head.quota, head.quota_id};
  if (head.mask_words > 0) std::memcpy(card.cpus.mask.data(), rest.data(), rest.size() - text.size());
  card.why_closed.assign(reinterpret_cast<const char*>(text.data()), text.size());
  return card;
}

Store::Bytes encode(const Contacts& contacts) {
  const auto bytes = std::as_bytes(std::span(contacts));
  return {bytes.begin(), bytes.end()};
}

Contacts decode_contacts(std::span<const std::byte> bytes, int world_size) {
  if (bytes.size() % sizeof(Contact) != 0) refuse();
  Contacts contacts(bytes.size() / sizeof(Contact));
  if (!contacts.empty()) std::memcpy(contacts.data(), bytes.data(), bytes.size());
  for (const Contact& contact : contacts) {
    if (contact.rank.value < 0 || contact.rank.value >= world_size) refuse();
  }
  return contacts;
}

const Contact* find(const Contacts& contacts, Rank rank) noexcept {
  const auto found = std::find_if(contacts.begin(), contacts.end(),
                                  [&](const Contact& contact) { return contact.rank == rank; });
  return found == contacts.end() ? nullptr : &*found;
}

}  // namespace ucxring::shm
