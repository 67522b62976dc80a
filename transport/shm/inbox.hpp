// The receiving side: what peers have put into their outboxes for this rank.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/audience.hpp"
#include "transport/matcher.hpp"
#include "transport/shared_memory.hpp"
#include "transport/shm/happens_before.hpp"
#include "transport/shm/neighbours.hpp"
#include "transport/shm/wire.hpp"
#include "transport/transport.hpp"

namespace ucxring::shm {

/// Messages stay in their queues until somebody asks for them by tag; only when the sender has run out of
/// room for long are they copied. Called by the thread that drives the context.
class Inbox {
 public:
  /// `own` is this rank's outbox, which holds its acks.
  Inbox(Rank self, int world_size, const OutboxView<std::byte>& own);

  /// As `Outbox::sleepers_fence`, for acks.
  void sleepers_fence(bool yes) noexcept { sleepers_fence_ = yes; }

  /// Adds a sender; `neighbour` is null for this rank itself.
  void connect(Rank peer, const OutboxView<const std::byte>& theirs, std::shared_ptr<Neighbour> neighbour);

  /// As in `SharedMemory`.
  [[nodiscard]] SharedMemory::Message peek(Rank peer, Tag tag) noexcept;
  bool release(Rank peer, Tag tag) noexcept;
  [[nodiscard]] bool overlooked() const noexcept { return passed_over_ && has_unannounced(); }

  /// As `Endpoint::receive_into` and `receive_apply`.
  Status post(Rank peer, const PostedReceive& receive);

  /// Who hears of messages nobody asked for, of control messages and of lost peers: as `Audience::set`.
  bool set_listener(Listener* listener) { return audience_.set(listener); }

  /// Looks for new messages and news of every sender; true when there were any.
  bool progress();
  /// Whether `progress` would find something.
  [[nodiscard]] bool has_news() const noexcept;

  /// `peer` left in good order, or died (`killed`): what is posted to it and will not come fails with `why`.
  /// False when it was gone before.
  bool lose(Rank peer, const Status& why, bool killed);
  /// Why `peer` sends nothing more; ok while it may.
  [[nodiscard]] const Status& gone(Rank peer) const noexcept { return source(peer).gone; }
  /// Fails everything posted with `why`.
  void fail_all(const Status& why);

  /// Called when a sender has left, with the reason.
  std::function<void(Rank peer, const Status& why)> on_left;

 private:
  /// Of one sender, while nobody here waits for anything.
  static constexpr std::size_t kMostAside = std::size_t{64} << 20U;

  enum class CellState : std::uint8_t { fresh, consumed };

  /// A message of several fragments that is on its way to its receiver, to the heap, or nowhere.
  struct Assembly {
    Tag tag;
    Stamp stamp = 0;
    std::size_t bytes = 0;
    std::uint64_t next = 0;  ///< position of the next fragment
    std::optional<PostedReceive> receive;
    std::optional<std::vector<std::byte>> copy;
  };
  struct Source {
    Rank rank;
    const Cell* cells = nullptr;
    const Header* header = nullptr;
    const ControlRing* control = nullptr;
    Ack* ack = nullptr;
    const std::byte* outbox = nullptr;
    std::shared_ptr<Neighbour> neighbour;
    std::uint64_t head = 0;       ///< first position not consumed
    std::uint64_t seen = 0;       ///< first position not known to be filled
    std::uint64_t announced = 0;  ///< first position `progress` has not looked at
    std::uint64_t found = 0;      ///< by the last `peek`
    std::uint64_t control_read = 0;
    std::uint32_t news = 0;
    bool starves = false;   ///< has said that it lacks room, and nothing has been done about it
    std::size_t aside = 0;  ///< bytes of its messages that have been copied and not been asked for
    std::array<CellState, kCells> states{};
    std::optional<Assembly> assembly;
    Status gone;
  };
  using Copy = std::vector<std::byte>;

  [[nodiscard]] Source& source(Rank peer) noexcept {
    return sources_[static_cast<std::size_t>(slots_[static_cast<std::size_t>(peer.value)])];
  }
  [[nodiscard]] const Source& source(Rank peer) const noexcept {
    return sources_[static_cast<std::size_t>(slots_[static_cast<std::size_t>(peer.value)])];
  }
  [[nodiscard]] static const Cell& cell(const Source& source, std::uint64_t position) noexcept {
    return source.cells[position % kCells];
  }
  [[nodiscard]] static bool filled(const Source& source, std::uint64_t position) noexcept {
    const auto& turn = cell(source, position).turn;
    if (turn.load(std::memory_order_acquire) != position + 1) return false;
    acquired(&turn, source.outbox, source.header->owners_address);
    return true;
  }
  [[nodiscard]] static std::span<const std::byte> bytes_of(const Source& source, const Cell& cell) noexcept;
  [[nodiscard]] static bool intact(const Source& source, const Cell& cell) noexcept;
  [[nodiscard]] bool find(Source& source, Tag tag) noexcept;
  [[nodiscard]] bool has_unannounced() const noexcept;
  void consume(Source& source, std::uint64_t position) noexcept;
  void tell_of_ack(const Source& source) noexcept;
  void take(Source& source, std::uint64_t position, const PostedReceive& receive);
  void take_fragment(Source& source, std::uint64_t position);
  void finish(Source& source);
  bool look(Source& source);
  void arrived(Source& source, std::uint64_t position);
  void read_news(Source& source);
  void read_control(Source& source);
  void relieve(Source& source);
  void spill(Source& source);

  Rank self_;
  OutboxView<std::byte> own_;
  std::vector<int> slots_;  // by rank
  std::vector<Source> sources_;
  Matcher<Copy> matcher_;
  Audience audience_;
  bool sleepers_fence_ = false;
  bool passed_over_ = false;  // `find` skipped a message since the last `progress`
  bool moved_ = false;        // a completion finished or the listener was called
};

}  // namespace ucxring::shm
