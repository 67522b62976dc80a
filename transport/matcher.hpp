// Meeting of posted receives and arriving messages, the same for every transport.
#pragma once

#include <optional>
#include <utility>

#include "transport/match_table.hpp"
#include "transport/types.hpp"

namespace ucxring {

/// A receive that waits for its message.
struct PostedReceive {
  Tag tag;
  Stamp stamp = 0;
  Buffer target;          ///< where the bytes go when `apply` is false
  Sink sink;              ///< who gets the bytes when `apply` is true
  std::size_t bytes = 0;  ///< exact size expected
  bool apply = false;
  Completion* done = nullptr;

  /// `receive_into`: the whole of `target`.
  [[nodiscard]] static PostedReceive into(Buffer target, Tag tag, Stamp stamp, Completion& done) noexcept;
  /// `receive_apply`: `bytes` bytes into `sink`.
  [[nodiscard]] static PostedReceive applying(Sink sink, std::size_t bytes, Tag tag, Stamp stamp,
                                              Completion& done) noexcept;

  /// Success when a message of `stamp` and `bytes` is the one expected, else `mismatch`. Changes nothing.
  [[nodiscard]] Status check_match(Rank peer, Stamp stamp, std::size_t bytes) const;

  /// As `check_match`; on a mismatch also completes `done` with it, `received_stamp` and `received_bytes`,
  /// and returns false: the message is then to be dropped.
  [[nodiscard]] bool accept(Rank peer, Stamp stamp, std::size_t bytes) const;

  /// Copies or applies the range at `offset` of a host-memory message. The caller covers the message exactly
  /// once, with rising offsets, and then calls `finish()`. Zero bytes do nothing.
  void deliver(std::size_t offset, std::span<const std::byte> range) const;

  /// Completes `done` with success.
  void finish() const noexcept { done->succeed(); }
};

/// A message that arrived before its receive was posted. `Payload` is the transport's own: the bytes, or the
/// means to fetch them. Destroying it drops the message.
template <typename Payload>
struct UnexpectedMessage {
  Rank peer;
  Tag tag;
  Stamp stamp = 0;
  std::size_t bytes = 0;
  Payload payload{};
};

/// Posted receives and unexpected messages of one transport, keyed by (peer, tag); equal keys in order. No
/// allocation in steady state. Not thread-safe: used by the thread that drives the context.
template <typename Payload>
class Matcher {
 public:
  using Message = UnexpectedMessage<Payload>;

  /// Posts `receive`: returns the unexpected message it meets (then nothing is stored and the caller checks
  /// and delivers it), or keeps the receive. Calls `done->start()` in either case.
  [[nodiscard]] std::optional<Message> post(Rank peer, const PostedReceive& receive) {
    receive.done->start();
    std::optional<Message> message = unexpected_.take(peer, receive.tag);
    if (!message) posted_.insert(peer, receive.tag, receive);
    return message;
  }

  /// A message of `peer` arrived: removes and returns the receive that waits for it. With none, the caller
  /// calls `keep()` and tells its listener.
  [[nodiscard]] std::optional<PostedReceive> arrive(Rank peer, Tag tag) { return posted_.take(peer, tag); }

  /// Whether an unexpected message waits for a receive of `tag`.
  [[nodiscard]] bool holds(Rank peer, Tag tag) const { return unexpected_.contains(peer, tag); }

  /// The oldest unexpected message of `tag` where it is kept, null when there is none; valid until the next
  /// call of any other function here.
  [[nodiscard]] const Message* find(Rank peer, Tag tag) const { return unexpected_.find(peer, tag); }
  /// Removes and returns the message that `find` found.
  [[nodiscard]] std::optional<Message> take(Rank peer, Tag tag) { return unexpected_.take(peer, tag); }

  /// Keeps an unexpected message until its receive is posted.
  void keep(Message message) {
    const Rank peer = message.peer;
    const Tag tag = message.tag;
    unexpected_.insert(peer, tag, std::move(message));
  }

  /// Fails every posted receive and drops every unexpected message; `drop(Message&&)` sees the latter.
  /// Returns whether any completion finished. `drop` must not use this matcher.
  template <typename Drop>
  bool fail_all(const Status& why, Drop drop) {
    return fail([](Rank) { return true; }, why, drop);
  }
  bool fail_all(const Status& why) {
    return fail_all(why, [](Message&&) {});
  }

  /// The same for one peer.
  template <typename Drop>
  bool fail_peer(Rank peer, const Status& why, Drop drop) {
    return fail([peer](Rank other) { return other == peer; }, why, drop);
  }
  bool fail_peer(Rank peer, const Status& why) {
    return fail_peer(peer, why, [](Message&&) {});
  }

  /// Fails the receives posted for one peer and keeps its unexpected messages, for a peer that left in good
  /// order.
  bool fail_posted(Rank peer, const Status& why) {
    bool failed = false;
    posted_.extract_if([peer](Rank other) { return other == peer; },
                       [&](Rank, Tag, const PostedReceive& receive) {
                         receive.done->fail(why);
                         failed = true;
                       });
    return failed;
  }

  [[nodiscard]] std::size_t posted() const noexcept { return posted_.size(); }
  [[nodiscard]] std::size_t unexpected() const noexcept { return unexpected_.size(); }

 private:
  template <typename Wanted, typename Drop>
  bool fail(Wanted wanted, const Status& why, Drop drop) {
    bool failed = false;
    posted_.extract_if(wanted, [&](Rank, Tag, const PostedReceive& receive) {
      receive.done->fail(why);
      failed = true;
    });
    unexpected_.extract_if(wanted, [&](Rank, Tag, Message message) { drop(std::move(message)); });
    return failed;
  }

  MatchTable<PostedReceive> posted_;
  MatchTable<Message> unexpected_;
};

}  // namespace ucxring
