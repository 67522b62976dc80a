// How a group notices and words what went wrong: mismatches, lost peers, deadlines.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "collectives/group.hpp"
#include "collectives/probe_talk.hpp"

namespace ucxring {

namespace {

constexpr auto kAnswerTime = std::chrono::milliseconds(500);
constexpr std::int32_t kSequenceModulus = std::int32_t{1} << Tag::kSequenceBits;

/// Signed distance between a tag's sequence and a full one, modulo the tag's width.
std::int32_t distance(std::uint32_t tag_sequence, std::uint64_t sequence) {
  const auto ours = static_cast<std::int32_t>(sequence % static_cast<std::uint64_t>(kSequenceModulus));
  const std::int32_t difference = (static_cast<std::int32_t>(tag_sequence) - ours) & (kSequenceModulus - 1);
  return difference >= kSequenceModulus / 2 ? difference - kSequenceModulus : difference;
}

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

/// "1, 2, 3", with as many as fit into a message.
template <typename Number>
std::string listed(const std::vector<Number>& numbers) {
  constexpr std::size_t kMost = 16;
  const auto shown = std::span(numbers).first(std::min(numbers.size(), kMost));
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     numbers.size() > kMost ? fmt::format(" and {} more", numbers.size() - kMost) : "");
}

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", listed(ranks));
}

/// The counts of all ranks in an uneven operation; empty where this rank does not know them.
std::string sizes_text(const Plan& plan) {
  if (!plan.fingerprint.uneven || plan.fingerprint.count == 0) return {};
  const ChunkMap& all = plan.input.size() > plan.output.size() ? plan.input : plan.output;
  std::vector<std::size_t> counts;
  for (const Extent& extent : all) counts.push_back(extent.bytes / plan.element_bytes);
  return fmt::format("[{}] elements", listed(counts));
}

/// What is known of the sizes of a peer's uneven call beside this rank's.
std::string_view compared_sizes(const Fingerprint& other, const Fingerprint& own) {
  if (!other.uneven || other.count == 0 || !own.uneven || own.count == 0) return {};
  return other.count == own.count ? "the same uneven sizes" : "other uneven sizes";
}

/// A stamp as the text of a control message.
std::string text_of(Stamp stamp) {
  std::string text(sizeof stamp, '\0');
  std::memcpy(text.data(), &stamp, sizeof stamp);
  return text;
}

std::optional<Stamp> stamp_of(std::string_view text) {
  Stamp stamp = 0;
  if (text.size() != sizeof stamp) return std::nullopt;
  std::memcpy(&stamp, text.data(), sizeof stamp);
  return stamp;
}

}  // namespace

std::string Group::title(const Execution& execution) const {
  const Plan& plan = execution.plan();
  return fmt::format("{} #{} in group '{}'", plan.fingerprint.describe(sizes_text(plan)),
                     execution.sequence(), name_);
}

void Group::on_unexpected(Rank peer, Tag tag, Stamp stamp) {
  if (!failure_.ok() || stamp == kProbeStamp) return;
  if (PeerMessage::is(tag)) return peers_.arrived(peer, tag, stamp);
  const auto newest = sequence_.load();
  const auto ahead = distance(tag.sequence(), newest);
  const auto sequence = newest + static_cast<std::uint64_t>(static_cast<std::int64_t>(ahead));
  if (ahead > 0) {
    Called& early = early_[sequence % kRemembered];
    const bool differs = early.sequence == sequence && early.stamp != stamp;
    (differs ? early_others_[sequence % kRemembered] : early) = {sequence, stamp, peer.value};
    return;
  }
  const Called& called = ours_[sequence % kRemembered];
  if (called.sequence != sequence) return;
  const Execution* const execution = in_flight(sequence);
  // A finished operation has received all its messages: one more means that the peer runs another one.
  if (execution == nullptr || called.stamp != stamp) {
    report_mismatch(sequence, peer.value, stamp,
                    execution == nullptr ? Own{called.stamp, {}} : own(execution->plan()));
  }
}

/// The operation of this number; null when it is done or has not begun.
const Execution* Group::in_flight(std::uint64_t sequence) const {
  const auto is_it = [&](const auto& execution) {
    return execution->sequence() == sequence && !execution->done();
  };
  const auto active = std::find_if(active_.begin(), active_.end(), is_it);
  if (active != active_.end()) return active->get();
  const auto waiting = std::find_if(waiting_.begin(), waiting_.end(), is_it);
  return waiting != waiting_.end() ? waiting->get() : nullptr;
}

void Group::on_peer_lost(Rank peer, const Status& why) {
  const auto doing = active_.empty() ? fmt::format("group '{}'", name_) : title(*active_.front());
  report(
      {why.code(), fmt::format("{}: rank {} lost rank {}: {}", doing, rank_.value, peer.value, why.message()),
       peer.value},
      rank_.value, grace(peer.value));
}

/// How long to wait for a better explanation of the loss of `peer`. None in shared memory, where everything
/// that it said before has been heard.
Duration Group::grace(int peer) const noexcept {
  return shared_ != nullptr && shared_->reaches(Rank(peer)) ? Duration{} : kGrace;
}

void Group::on_control(Rank peer, std::span<const std::byte> wire) {
  const auto message = decode(wire);
  if (!message || !failure_.ok()) return;
  switch (message->kind) {
    case ControlMessage::Kind::failure: {
      const auto reporter = fmt::format(" [reported by rank {}]", message->origin);
      const bool marked = message->text.ends_with(reporter);
      report({message->code, message->text + (marked ? "" : reporter), message->peer}, message->origin, {});
      return;
    }
    case ControlMessage::Kind::query:
      answer_query(peer, message->sequence);
      return;
    case ControlMessage::Kind::greeting:
      return;
    case ControlMessage::Kind::answer:
      if (!inquiry_) return;
      auto& answer = inquiry_->answers[static_cast<std::size_t>(peer.value)];
      if (!answer) --inquiry_->missing;
      answer = *message;
      dirty_ = true;
      return;
  }
}

/// Says how far this rank is, and what it called as operation `asked`.
void Group::answer_query(Rank peer, std::uint64_t asked) {
  const Called& called = ours_[asked % kRemembered];
  transport_->endpoint(peer).send_control(
      encode({ControlMessage::Kind::answer, ErrorCode::ok, -1, rank_.value, sequence_.load(), completed(),
              called.sequence == asked ? text_of(called.stamp) : std::string()}));
}

Group::Own Group::own(const Plan& plan) { return {plan.stamp, sizes_text(plan)}; }

/// Says what a peer and this rank called as the same operation.
Status Group::mismatch(std::uint64_t sequence, int peer, Stamp theirs, const Own& ours) const {
  if (theirs == ours.stamp) {
    return misfit(sequence, peer, ours, fmt::format("more than rank {} expects", rank_.value));
  }
  const Fingerprint mine = Fingerprint::unpack(ours.stamp);
  const Fingerprint other = Fingerprint::unpack(theirs);
  return {
      ErrorCode::mismatch,
      fmt::format(
          "operation #{} in group '{}': rank {} called {} where rank {} called {}; all ranks must make the "
          "same calls in the same order with the same sizes, dtypes, roots and reduce ops",
          sequence, name_, peer, other.describe(compared_sizes(other, mine)), rank_.value,
          mine.describe(ours.sizes)),
      peer};
}

/// The call of both ranks looks the same, but the peer `sent` ("a message of 20 bytes where …") something
/// else than this rank expects: only the two together know the size.
Status Group::misfit(std::uint64_t sequence, int peer, const Own& both, const std::string& sent) const {
  return {
      ErrorCode::mismatch,
      fmt::format("operation #{} in group '{}': ranks {} and {} called {}, but rank {} sent {}; each rank "
                  "must send as much as the one that receives it expects",
                  sequence, name_, std::min(rank_.value, peer), std::max(rank_.value, peer),
                  Fingerprint::unpack(both.stamp).describe(both.sizes), peer, sent),
      peer};
}

/// Puts the trouble of one message into words.
Status Group::explain(const Execution& execution) const {
  const auto& trouble = execution.trouble();
  if (trouble.status.code() == ErrorCode::mismatch) {
    const Plan& plan = execution.plan();
    if (trouble.received_stamp != plan.stamp) {
      return mismatch(execution.sequence(), trouble.peer, trouble.received_stamp, own(plan));
    }
    return misfit(execution.sequence(), trouble.peer, own(plan),
                  fmt::format("a message of {} bytes where rank {} expects {}", trouble.received_bytes,
                              rank_.value, trouble.expected_bytes));
  }
  return {trouble.status.code(),
          fmt::format("{}: rank {} could not exchange data with rank {}: {}", title(execution), rank_.value,
                      trouble.peer, trouble.status.message()),
          trouble.peer};
}

Time Group::next_deadline() const noexcept {
  Time earliest = reported_.ok() ? Time::max() : report_due_;
  if (inquiry_) return inquiry_->missing == 0 ? Time::min() : std::min(earliest, inquiry_->until);
  for (const auto& execution : active_) earliest = std::min(earliest, execution->deadline());
  return std::min(earliest, peers_.next_deadline());
}

void Group::check_deadlines(Time now) {
  if (inquiry_) {
    if (inquiry_->late->done()) {
      inquiry_.reset();
    } else if (inquiry_->missing == 0 || now >= inquiry_->until) {
      fail(conclude(*inquiry_), rank_.value);
    }
    return;
  }
  if (const Status late = peers_.late(now); !late.ok()) return fail(named(late), rank_.value);
  for (const auto& execution : active_) {
    if (now >= execution->deadline()) {
      start_inquiry(execution, now);
      return;
    }
  }
}

void Group::start_inquiry(const std::shared_ptr<Execution>& late, Time now) {
  inquiry_.emplace(Inquiry{late, now + kAnswerTime, {}, world_size_ - 1});
  inquiry_->answers.resize(static_cast<std::size_t>(world_size_));
  announce({ControlMessage::Kind::query, ErrorCode::ok, -1, rank_.value, late->sequence(), completed(), {}});
}

Status Group::conclude(const Inquiry& inquiry) const {
  const Execution& late = *inquiry.late;
  std::vector<int> silent;
  std::vector<int> absent;
  std::string details;
  for (int peer = 0; peer < world_size_; ++peer) {
    const auto& answer = inquiry.answers[static_cast<std::size_t>(peer)];
    if (peer == rank_.value) continue;
    if (!answer) {
      silent.push_back(peer);
    } else if (answer->sequence < late.sequence()) {
      absent.push_back(peer);
      details += fmt::format("; rank {} last started #{} and completed #{}", peer, answer->sequence,
                             answer->completed);
    } else if (const auto theirs = stamp_of(answer->text); theirs && *theirs != late.plan().stamp) {
      // Two roots that wait for each other's vectors, for instance, never see a message of the other.
      return mismatch(late.sequence(), peer, *theirs, own(late.plan()));
    }
  }
  std::string who;
  if (!absent.empty())
    who += fmt::format("; {} not arrived", ranks_text(absent) + (absent.size() == 1 ? " has" : " have"));
  if (!silent.empty()) {
    who += fmt::format("; {} not respond (stopped, hung or cut off)",
                       ranks_text(silent) + (silent.size() == 1 ? " does" : " do"));
  }
  if (who.empty()) {
    who = fmt::format("; all ranks have arrived, and rank {} still exchanges data with {}", rank_.value,
                      ranks_text(late.awaited_peers()));
  }
  const auto culprit = !absent.empty() ? absent.front() : !silent.empty() ? silent.front() : -1;
  return {ErrorCode::timeout,
          fmt::format("{} timed out after {:.1f} s on rank {} ({} bytes){}{}. Look at what these ranks do; "
                      "if they are only "
                      "slow, raise the timeout of the group or of the call",
                      title(late), seconds(late.deadline() - late.started()), rank_.value,
                      std::max(late.plan().input_bytes, late.plan().output_bytes), who, details),
          culprit};
}

}  // namespace ucxring
