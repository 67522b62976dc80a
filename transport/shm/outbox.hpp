// The sending side: this rank's own region.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "transport/shared_memory.hpp"
#include "transport/shm/arena.hpp"
#include "transport/shm/neighbours.hpp"
#include "transport/shm/pool.hpp"
#include "transport/shm/region.hpp"
#include "transport/shm/wire.hpp"

namespace ucxring::shm {

/// Puts messages where their recipients find them. Called by the thread that drives the context.
class Outbox {
 public:
  /// In `region`, whose size `bytes_needed` gives; without one in private memory, which only this rank reads.
  Outbox(Rank self, int world_size, std::size_t arena_bytes, std::optional<Region> region);
  [[nodiscard]] static std::size_t bytes_needed(int world_size, std::size_t arena_bytes) noexcept {
    return Layout::of(world_size, arena_bytes).bytes;
  }

  /// Null in private memory.
  [[nodiscard]] const Region* region() const noexcept { return region_ ? &*region_ : nullptr; }
  [[nodiscard]] const OutboxView<std::byte>& view() const noexcept { return view_; }

  /// Adds a reader. `neighbour` is null for this rank itself; its outbox is then this one. `reads_pool` says
  /// whether it has mapped this process's registered memory.
  void connect(Rank peer, const OutboxView<const std::byte>& theirs, std::shared_ptr<Neighbour> neighbour,
               bool reads_pool);
  /// Without this each send ends with a full fence, so that a peer going to sleep is not missed.
  void sleepers_fence(bool yes) noexcept { sleepers_fence_ = yes; }

  [[nodiscard]] bool reaches(Rank peer) const noexcept { return slots_[index(peer)] >= 0; }
  [[nodiscard]] std::size_t max_message() const noexcept { return large_.most(); }

  // As in `SharedMemory`.
  [[nodiscard]] std::byte* reserve(std::size_t bytes) noexcept;
  [[nodiscard]] bool commit(const std::byte* room, std::size_t bytes, std::span<const Recipient> recipients,
                            Tag tag, Stamp stamp) noexcept;
  [[nodiscard]] bool publish(ConstBuffer data, std::span<const Recipient> recipients, Tag tag,
                             Stamp stamp) noexcept;
  [[nodiscard]] bool refers(ConstBuffer data) const noexcept {
    return data.bytes >= kReferenceBytes && all_read_pool_ && Pool::process().contains(data.data, data.bytes);
  }
  [[nodiscard]] bool refer(ConstBuffer data, std::span<const Recipient> recipients, Tag tag, Stamp stamp,
                           Completion& done);

  /// As `Endpoint::send`, of any size.
  void send(Rank peer, ConstBuffer data, Tag tag, Stamp stamp, Completion& done);
  /// As `Endpoint::send_control`.
  void send_control(Rank peer, std::span<const std::byte> message);

  /// Goes on with what had to wait; true when a completion finished or there is room again.
  bool progress();
  /// Sends to `peer` fail with `why` from now on.
  void forget(Rank peer, const Status& why);
  /// Tells every reader that this rank has left and fails what is pending.
  void leave(const Status& why);

  /// Whether everything sent lies in shared memory.
  [[nodiscard]] bool flushed() const noexcept;
  /// Whether nothing waits: no send, no ack.
  [[nodiscard]] bool quiet() const noexcept { return !starved_ && references_.empty(); }

 private:
  struct Pending {
    ConstBuffer data;
    Tag tag;
    Stamp stamp = 0;
    Completion* done = nullptr;
    std::size_t sent = 0;
  };
  struct Reader {
    Rank rank;
    Cell* cells = nullptr;
    ControlRing* control = nullptr;
    OutboxView<const std::byte> theirs;
    std::shared_ptr<Neighbour> neighbour;
    bool gone = false;
    std::size_t references = 0;  ///< in `references_`
    std::deque<Pending> pending;
    std::deque<std::vector<std::byte>> pending_control;
  };
  /// A message whose bytes the reader `slot` takes from registered memory, as position `position` of its
  /// queue. Entries of one message follow each other.
  struct Reference {
    Completion* done;
    std::size_t slot;
    std::uint64_t position;
  };

  /// Smaller messages cost less to copy than to wait for.
  static constexpr std::size_t kReferenceBytes = std::size_t{16} << 10U;
  /// Beyond that messages are copied: a reader who is not ready for them can copy on, so that there is always
  /// room in its queue for those that it waits for, but does not copy what it is referred to.
  static constexpr std::size_t kMostReferences = kCells / 2;

  static std::size_t index(Rank rank) noexcept { return static_cast<std::size_t>(rank.value); }
  [[nodiscard]] std::size_t slot(Rank rank) const noexcept {
    return static_cast<std::size_t>(slots_[index(rank)]);
  }
  [[nodiscard]] Arena& arena_for(std::size_t bytes) noexcept {
    return bytes <= kSmallMessage ? small_ : large_;
  }
  [[nodiscard]] bool may_refer(std::span<const Recipient> recipients) const noexcept;
  [[nodiscard]] bool have_cells(std::span<const Recipient> recipients) noexcept;
  [[nodiscard]] Cell& next_cell(std::size_t slot, Tag tag, Stamp stamp) noexcept;
  void hand_over(std::size_t slot, Cell& cell) noexcept;
  void wake(std::span<const Recipient> recipients) noexcept;
  void read_acks() noexcept;
  bool finish_references();
  bool send_pending(Reader& reader);
  bool send_fragment(Reader& reader, Pending& pending);
  bool send_pending_control(Reader& reader);
  bool write_control(Reader& reader, std::span<const std::byte> message);
  void announce_news();
  void starve();
  void fail_pending(Reader& reader, const Status& why);

  [[nodiscard]] static std::byte* aligned(std::vector<std::byte>& memory, std::size_t bytes);

  Rank self_;
  std::optional<Region> region_;
  std::vector<std::byte> private_;
  OutboxView<std::byte> view_;
  std::vector<int> slots_;  // by rank: index of its reader, −1 for none
  std::vector<Reader> readers_;
  std::vector<std::uint64_t> tails_;  // by reader: cells ever handed over
  std::vector<std::uint64_t> acks_;   // by reader: cells known to be consumed
  Arena small_, large_;
  std::vector<Reference> references_;
  bool all_read_pool_ = true;
  bool sleepers_fence_ = false;
  std::uint64_t ack_changes_ = 0;  // times that `read_acks` found any
  bool starved_ = false;
  std::uint64_t starved_at_ =
      0;  // ack_changes_ then: whoever reads acks meanwhile must not hide that there is room
  Time starved_since_{};
};

}  // namespace ucxring::shm
