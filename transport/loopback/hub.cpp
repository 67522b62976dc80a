#include "transport/loopback/hub.hpp"

#include <fmt/format.h>

#include <numeric>
#include <utility>

namespace ucxring::loopback {

SharedHub::SharedHub(int world_size, std::vector<int> hosts) : hosts_(std::move(hosts)) {
  if (world_size < 1) {
    throw Error(ErrorCode::invalid_argument, fmt::format("loopback: a group of {} ranks", world_size));
  }
  if (hosts_.empty()) {
    hosts_.resize(static_cast<std::size_t>(world_size));
    std::iota(hosts_.begin(), hosts_.end(), 0);
  }
  if (hosts_.size() != static_cast<std::size_t>(world_size)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("loopback: hosts of {} ranks for a group of {}", hosts_.size(), world_size));
  }
  ports_.resize(static_cast<std::size_t>(world_size));
  members_.resize(static_cast<std::size_t>(world_size), Member::absent);
}

void SharedHub::check(Rank rank) const {
  if (rank.value < 0 || rank.value >= world_size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("loopback: rank {} is not in this group of {}", rank.value, world_size()),
                rank.value);
  }
}

void SharedHub::join(Rank rank) {
  check(rank);
  const std::unique_lock lock(gate_);
  Member& member = members_[index(rank)];
  if (member != Member::absent) {
    throw Error(ErrorCode::invalid_argument, fmt::format("loopback: rank {} has joined before", rank.value),
                rank.value);
  }
  member = Member::present;
}

bool SharedHub::mark_gone(Rank rank) {
  const std::unique_lock lock(gate_);
  return std::exchange(members_[index(rank)], Member::gone) != Member::gone;
}

void SharedHub::kill(Rank rank) {
  check(rank);
  if (!mark_gone(rank)) return;
  Message notice;
  notice.kind = Message::Kind::lost;
  notice.from = rank;
  notice.status = Status(ErrorCode::peer_lost, fmt::format("rank {} was killed", rank.value), rank.value);
  for (Port& port : ports_) port.push(notice);
}

void SharedHub::close(Rank rank, const Status& why) {
  if (!mark_gone(rank)) return;
  Message notice;
  notice.kind = Message::Kind::left;
  notice.from = rank;
  notice.status = Status(ErrorCode::peer_lost,
                         fmt::format("rank {} left the group: {}", rank.value, why.message()), rank.value);
  for (int peer = 0; peer < world_size(); ++peer) {
    if (peer != rank.value) port(Rank(peer)).push(notice);
  }
}

std::shared_ptr<Hub> make_hub(int world_size, std::vector<int> hosts) {
  return std::make_shared<SharedHub>(world_size, std::move(hosts));
}

}  // namespace ucxring::loopback
