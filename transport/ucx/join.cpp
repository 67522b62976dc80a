#include "transport/ucx/join.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "transport/base/error.hpp"
#include "transport/roll_call.hpp"

namespace ucxring::ucx {
namespace {

struct EntryHead {
  std::uint32_t version = kProtocolVersion;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  std::uint32_t where_bytes = 0;
};

std::string describe_here() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) std::strcpy(host.data(), "unknown");
  return fmt::format("host {}, pid {}", host.data(), getpid());
}

void check_member(const Member& member, Rank expected, Rank self, int world_size) {
  if (member.rank == expected && member.world_size == world_size) return;
  throw Error(ErrorCode::mismatch,
              fmt::format("rank {} ({}) expects a group of {} ranks, rank {} expects {}", member.rank.value,
                          member.where, member.world_size, self.value, world_size),
              expected.value);
}

GroupSecret secret_of(const Store::Bytes& said) {
  if (const auto found = read_header<GroupSecret>(said.data(), said.size())) return *found;
  throw Error(ErrorCode::mismatch, "rank 0 published a malformed group secret");
}

}  // namespace

Store::Bytes encode_member(const Member& member) {
  EntryHead head;
  head.rank = static_cast<std::uint32_t>(member.rank.value);
  head.world_size = static_cast<std::uint32_t>(member.world_size);
  head.where_bytes = static_cast<std::uint32_t>(member.where.size());
  const auto where = std::as_bytes(std::span(member.where));
  Store::Bytes bytes(sizeof(head) + where.size() + member.address.size());
  std::memcpy(bytes.data(), &head, sizeof(head));
  const auto after_head = bytes.begin() + sizeof(head);
  std::copy(member.address.begin(), member.address.end(), std::copy(where.begin(), where.end(), after_head));
  return bytes;
}

Member decode_member(std::span<const std::byte> bytes) {
  EntryHead head;
  if (bytes.size() < sizeof(head)) throw Error(ErrorCode::mismatch, "a rank published a malformed entry");
  std::memcpy(&head, bytes.data(), sizeof(head));
  if (head.version != kProtocolVersion) {
    throw Error(ErrorCode::mismatch,
                fmt::format("a rank speaks version {} of ucxring's protocol over UCX, this one "
                            "version {}: install the same ucxring everywhere",
                            head.version, kProtocolVersion));
  }
  const auto rest = bytes.subspan(sizeof(head));
  if (rest.size() < head.where_bytes) throw Error(ErrorCode::mismatch, "a rank published a malformed entry");
  Member member;
  member.rank = Rank(static_cast<int>(head.rank));
  member.world_size = static_cast<int>(head.world_size);
  member.where.assign(reinterpret_cast<const char*>(rest.data()), head.where_bytes);
  member.address.assign(rest.begin() + head.where_bytes, rest.end());
  return member;
}

Group join(Store& store, Rank rank, int world_size, std::chrono::milliseconds timeout,
           std::span<const std::byte> address) {
  RollCall roll_call(store, kUcxRollCall, rank, world_size, timeout);
  if (rank == Rank(0)) {
    const Token secret = random_token();
    roll_call.say("secret", {secret.begin(), secret.end()});
  }
  // Members before the secret: so every rank names exactly those that are missing, also when rank 0 is.
  roll_call.say(kUcxFirstStep,
                encode_member({rank, world_size, describe_here(), {address.begin(), address.end()}}));
  Group group;
  for (int peer = 0; peer < world_size; ++peer) {
    group.members.push_back(decode_member(roll_call.hear(kUcxFirstStep, Rank(peer))));
    check_member(group.members.back(), Rank(peer), rank, world_size);
  }
  group.secret = secret_of(roll_call.hear("secret", Rank(0)));
  return group;
}

}  // namespace ucxring::ucx
