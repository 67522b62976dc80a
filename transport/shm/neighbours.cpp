#include "transport/shm/neighbours.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <limits>
#include <map>
#include <utility>

#include "transport/base/error.hpp"
#include "transport/base/log.hpp"
#include "transport/roll_call.hpp"
#include "transport/shm/card.hpp"
#include "transport/shm/cliques.hpp"
#include "transport/shm/door.hpp"
#include "transport/shm/lifeline.hpp"

namespace ucxring::shm {
namespace {

/// Identifies the kernel that this process runs on; zero when it cannot be read.
Token this_machine() {
  Token machine{};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  file >> text;
  std::erase(text, '-');
  for (std::size_t i = 0; i < machine.size() && text.size() == 2 * machine.size(); ++i) {
    machine[i] = static_cast<std::byte>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  }
  return machine;
}

bool register_for_membarrier() {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

int poll_timeout(std::chrono::milliseconds left) noexcept {
  return static_cast<int>(std::min<std::int64_t>(left.count(), std::numeric_limits<int>::max()));
}

/// One meeting of one rank; the steps in the order in which they are called.
class Meeting {
 public:
  Meeting(Store& store, Rank rank, int world_size, std::chrono::milliseconds timeout, const Region* outbox,
          const Here& here, const Config& config)
      : roll_call_(store, kShmRollCall, rank, world_size, timeout),
        rank_(rank),
        world_size_(world_size),
        outbox_(outbox),
        here_(here),
        config_(config),
        visits_(static_cast<std::size_t>(world_size)),
        trouble_(static_cast<std::size_t>(world_size)) {
    found_.peers.resize(static_cast<std::size_t>(world_size));
  }

  /// Opens this rank's door, unless `why_not` forbids it, and tells all ranks where it is.
  void introduce(const std::string& why_not) {
    own_.world_size = world_size_;
    own_.door = random_token();
    own_.secret = random_token();
    own_.machine = this_machine();
    own_.membarrier = register_for_membarrier();
    own_.cpus = own_cpu_share();
    own_.why_closed = why_not;
    if (outbox_ != nullptr && why_not.empty()) open_door();
    roll_call_.say(kShmFirstStep, encode(own_));
    for (int peer = 0; peer < world_size_; ++peer) {
      cards_.push_back(decode_card(roll_call_.hear(kShmFirstStep, Rank(peer))));
      check(cards_.back(), Rank(peer));
    }
  }

  /// Says hello at the doors of all lower ranks. A hello lies in the socket before `reached` is told, so
  /// nobody need wait for visitors.
  void visit_lower_ranks() {
    Contacts reached;
    for (int peer = 0; peer < rank_.value; ++peer) {
      if (!may_share(Rank(peer))) continue;
      const Card& card = cards_[static_cast<std::size_t>(peer)];
      Descriptor socket = knock(card.door, config_.shm_dir);
      if (!socket) {
        trouble(Rank(peer),
                "its socket does not answer here (containers with networks of their own need "
                "UCXRING_SHM_DIR, a directory that all of them see)");
      } else if (!say_hello(socket, Rank(peer))) {
        trouble(Rank(peer), "it does not listen");
      } else {
        visit(Rank(peer)) = std::move(socket);
        reached.push_back({Rank(peer)});
      }
    }
    roll_call_.say("reached", encode(reached));
  }

  /// Answers those higher ranks that have come; whoever else is at the door is a stranger.
  void let_higher_ranks_in() {
    if (!door_) return;
    std::size_t expected = 0;
    for (int peer = rank_.value + 1; peer < world_size_; ++peer) {
      const auto reached = decode_contacts(roll_call_.hear("reached", Rank(peer)), world_size_);
      if (find(reached, rank_) != nullptr) {
        ++expected;
      } else if (may_share(Rank(peer))) {
        trouble(Rank(peer),
                "it does not reach the socket of this rank (containers with networks of their own "
                "need UCXRING_SHM_DIR, a directory that all of them see)");
      }
    }
    std::size_t strangers = 0;
    while (expected > 0) {
      const Descriptor visitor = door_->accept();
      if (!visitor) break;
      if (let_in(visitor)) {
        --expected;
      } else {
        ++strangers;
      }
    }
    if (strangers > 0)
      log::warning("{} strangers at the socket of shared memory were turned away", strangers);
    door_.reset();
  }

  /// Hears the answers of the lower ranks that were visited.
  void await_answers() {
    for (int peer = 0; peer < rank_.value; ++peer) {
      Descriptor& socket = visit(Rank(peer));
      if (!socket) continue;
      pollfd waiting{socket.get(), POLLIN, 0};
      // A signal or the end of the time is no answer, either: what all have found decides.
      while (poll(&waiting, 1, poll_timeout(roll_call_.left())) < 0 && errno == EINTR) continue;
      if (waiting.revents == 0) roll_call_.throw_timeout("met");
      auto answer = receive_parcel(socket);
      const auto hello = answer ? decode_hello(answer->bytes, answer->descriptors.size()) : std::nullopt;
      if (hello && hello->rank == Rank(peer) && hello->secret == own_.secret) {
        admit(*hello, answer->descriptors);
      } else {
        trouble(Rank(peer), "it gave no answer");
      }
      socket.reset();
    }
  }

  /// Compares what everybody found.
  Neighbours agree() {
    Contacts own;
    for (int peer = 0; peer < world_size_; ++peer) {
      const auto& met = found_.peers[static_cast<std::size_t>(peer)];
      if (met) own.push_back({Rank(peer), met->neighbour->pool() != nullptr ? 1U : 0U});
    }
    roll_call_.say("met", encode(own));
    std::vector<Contacts> met;
    for (int peer = 0; peer < world_size_; ++peer)
      met.push_back(decode_contacts(roll_call_.hear("met", Rank(peer)), world_size_));
    found_.hosts = find_hosts(met);
    keep_own_host(met);
    look_at_host();
    explain();
    return std::move(found_);
  }

 private:
  Descriptor& visit(Rank peer) { return visits_[static_cast<std::size_t>(peer.value)]; }
  const Card& card(Rank peer) const { return cards_[static_cast<std::size_t>(peer.value)]; }

  void trouble(Rank peer, std::string why) {
    trouble_[static_cast<std::size_t>(peer.value)] = std::move(why);
  }

  void open_door() {
    try {
      static_cast<void>(process_lifeline());
      door_.emplace(own_.door, config_.shm_dir);
    } catch (const Error& error) {
      own_.why_closed = error.status().message();
    }
  }

  bool may_share(Rank peer) const { return own_.why_closed.empty() && card(peer).why_closed.empty(); }

  void check(const Card& card, Rank peer) const {
    if (card.world_size == world_size_) return;
    throw Error(ErrorCode::mismatch,
                fmt::format("rank {} expects a group of {} ranks, rank {} one of {}", peer.value,
                            card.world_size, rank_.value, world_size_),
                peer.value);
  }

  bool say_hello(const Descriptor& socket, Rank peer) const {
    const Lifeline lifeline = process_lifeline();
    const Hello hello{
        rank_,           card(peer).secret, here_.token, lifeline.process, outbox_->token(), outbox_->bytes(),
        here_.pool_bytes};
    const std::array<int, kHelloDescriptors> all{outbox_->fd(), here_.doorbell, lifeline.reading_end,
                                                 here_.pool};
    const std::size_t count = here_.pool_bytes > 0 ? kHelloDescriptors : kHelloDescriptors - 1;
    return send_parcel(socket, encode(hello), std::span(all).first(count));
  }

  /// Whether the visitor was a rank of the group.
  bool let_in(const Descriptor& visitor) {
    auto parcel = receive_parcel(visitor);
    const auto hello = parcel ? decode_hello(parcel->bytes, parcel->descriptors.size()) : std::nullopt;
    const bool known =
        hello && hello->secret == own_.secret && hello->rank > rank_ && hello->rank.value < world_size_;
    if (!known) return false;
    if (admit(*hello, parcel->descriptors) && !say_hello(visitor, hello->rank)) {
      found_.peers[static_cast<std::size_t>(hello->rank.value)].reset();
      trouble(hello->rank, "it did not wait for the answer");
    }
    return true;
  }

  /// Maps the sender's memory; whether that worked.
  bool admit(const Hello& hello, std::vector<Descriptor>& enclosed) {
    try {
      RegionView outbox(enclosed[static_cast<std::size_t>(Enclosed::outbox)].get(), hello.outbox_bytes);
      if (outbox.token() != hello.region) throw Error(ErrorCode::transport, "its memory is not what it says");
      auto& peer = found_.peers[static_cast<std::size_t>(hello.rank.value)];
      peer.emplace(Peer{find_or_make_neighbour(hello, enclosed), std::move(outbox), false});
      return true;
    } catch (const Error& error) {
      trouble(hello.rank, std::string(error.status().message()));
      return false;
    }
  }

  bool is_here(int peer) const {
    return found_.hosts[static_cast<std::size_t>(peer)] ==
           found_.hosts[static_cast<std::size_t>(rank_.value)];
  }

  void keep_own_host(const std::vector<Contacts>& met) {
    for (int peer = 0; peer < world_size_; ++peer) {
      auto& found = found_.peers[static_cast<std::size_t>(peer)];
      if (found && !is_here(peer)) {
        found.reset();
        trouble(Rank(peer), "it could not map the memory of this rank, or of another one of this host");
      }
      if (found) found->reads_pool = find(met[static_cast<std::size_t>(peer)], rank_)->reads_pool != 0;
    }
  }

  void look_at_host() {
    std::vector<CpuShare> shares;
    found_.membarrier = true;
    for (int peer = 0; peer < world_size_; ++peer) {
      if (!is_here(peer)) continue;
      shares.push_back(card(Rank(peer)).cpus);
      found_.membarrier = found_.membarrier && card(Rank(peer)).membarrier;
    }
    const CpuBudget budget = cpu_budget(shares);
    found_.cores = budget.cores;
    found_.oversubscribed = budget.oversubscribed;
  }

  /// Gathers the ranks by reason.
  void explain() {
    std::map<std::string, std::vector<int>> ranks_by_reason;
    for (int peer = 0; peer < world_size_; ++peer) {
      if (is_here(peer)) continue;
      const bool same_machine = card(Rank(peer)).machine == own_.machine && own_.machine != Token{};
      found_.avoidable = found_.avoidable || same_machine;
      ranks_by_reason[reason_for(Rank(peer), same_machine)].push_back(peer);
    }
    for (const auto& [reason, ranks] : ranks_by_reason) {
      if (!found_.reason.empty()) found_.reason += "; ";
      found_.reason +=
          fmt::format("{} {}: {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "), reason);
    }
  }

  std::string reason_for(Rank peer, bool same_machine) const {
    if (!own_.why_closed.empty()) return fmt::format("this rank has none to share: {}", own_.why_closed);
    if (!card(peer).why_closed.empty()) return fmt::format("has none to share: {}", card(peer).why_closed);
    if (!same_machine) return "on another machine";
    const std::string& why = trouble_[static_cast<std::size_t>(peer.value)];
    return fmt::format("on this machine, but {}",
                       why.empty() ? "not among those that all reach each other" : why);
  }

  RollCall roll_call_;
  Rank rank_;
  int world_size_;
  const Region* outbox_;
  const Here& here_;
  const Config& config_;
  Card own_;
  std::vector<Card> cards_;
  std::optional<Door> door_;
  std::vector<Descriptor> visits_;    // by lower rank: connections that wait for the answer
  std::vector<std::string> trouble_;  // by rank
  Neighbours found_;
};

}  // namespace

Neighbours meet(Store& store, Rank rank, int world_size, std::chrono::milliseconds timeout,
                const Region* outbox, const std::string& why_not, const Here& here, const Config& config) {
  Meeting meeting(store, rank, world_size, timeout, outbox, here, config);
  meeting.introduce(why_not);
  meeting.visit_lower_ranks();
  meeting.let_higher_ranks_in();
  meeting.await_answers();
  return meeting.agree();
}

}  // namespace ucxring::shm
