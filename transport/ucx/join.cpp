#include "transport/ucx/join.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transport/base/deadline.hpp"
#include "transport/base/error.hpp"

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

GroupSecret make_secret() {
  GroupSecret secret;
  if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret)) {
    throw Error(ErrorCode::transport, fmt::format("no random numbers: {}", std::strerror(errno)));
  }
  return secret;
}

/// One join of one rank: the keys of its generation and the time left.
class Joining {
 public:
  Joining(Store& store, Rank rank, int world_size, std::chrono::milliseconds timeout)
      : store_(store),
        rank_(rank),
        world_size_(world_size),
        timeout_(timeout),
        deadline_(Deadline::after(timeout)) {
    generation_ = store_.add(fmt::format("ucx/gen/{}", rank.value), 1);
  }

  GroupSecret share_secret() {
    const std::string key = fmt::format("ucx/{}/secret", generation_);
    if (rank_ == Rank(0)) {
      const GroupSecret secret = make_secret();
      const auto* bytes = reinterpret_cast<const std::byte*>(&secret);
      store_.set(key, Store::Bytes(bytes, bytes + sizeof(secret)));
      return secret;
    }
    const Store::Bytes bytes = wait_for(key);
    if (const auto found = read_header<GroupSecret>(bytes.data(), bytes.size())) return *found;
    throw Error(ErrorCode::mismatch, "rank 0 published a malformed group secret");
  }

  void publish(std::span<const std::byte> address) {
    Member self{rank_, world_size_, describe_here(), {address.begin(), address.end()}};
    store_.set(key_of(rank_), encode_member(self));
  }

  std::vector<Member> collect() {
    std::vector<Member> members;
    for (int peer = 0; peer < world_size_; ++peer) {
      members.push_back(decode_member(wait_for(key_of(Rank(peer)))));
      check_member(members.back(), Rank(peer));
    }
    return members;
  }

 private:
  std::string key_of(Rank rank) const { return fmt::format("ucx/{}/rank/{}", generation_, rank.value); }

  Store::Bytes wait_for(const std::string& key) {
    try {
      return store_.get(key, deadline_.left(timeout_));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::timeout) throw;
    }
    throw Error(ErrorCode::timeout, describe_absent());
  }

  std::string describe_absent() {
    std::vector<int> absent;
    for (int peer = 0; peer < world_size_; ++peer) {
      if (Rank(peer) != rank_ && !store_.check(key_of(Rank(peer)))) absent.push_back(peer);
    }
    return fmt::format(
        "{} {} of {} {} not joined within {:.3g} s (attempt {} of rank {}): start all ranks with the same "
        "world size "
        "and store, or raise the timeout",
        absent.size() == 1 ? "rank" : "ranks", fmt::join(absent, ", "), world_size_,
        absent.size() == 1 ? "has" : "have", static_cast<double>(timeout_.count()) / 1000.0, generation_,
        rank_.value);
  }

  void check_member(const Member& member, Rank expected) const {
    if (member.rank == expected && member.world_size == world_size_) return;
    throw Error(ErrorCode::mismatch,
                fmt::format("rank {} ({}) expects a group of {} ranks, rank {} expects {}", member.rank.value,
                            member.where, member.world_size, rank_.value, world_size_),
                expected.value);
  }

  Store& store_;
  Rank rank_;
  int world_size_;
  std::chrono::milliseconds timeout_;
  Deadline deadline_;
  std::int64_t generation_ = 0;
};

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
  Joining joining(store, rank, world_size, timeout);
  Group group;
  // Publishing first lets every rank name exactly those that are missing, also when rank 0 is among them.
  joining.publish(address);
  group.secret = joining.share_secret();
  group.members = joining.collect();
  return group;
}

}  // namespace ucxring::ucx
