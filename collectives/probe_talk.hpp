// The conversation between two ranks that measures the link between them.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "transport/transport.hpp"

namespace ucxring {

/// What a probe found out about one link.
struct LinkMeasurement {
  std::int64_t latency_ns = 0;    ///< half of the shortest round trip of a small message, with all overheads
  std::int64_t bytes_per_us = 0;  ///< in each direction, while both are busy
};

/// Every message of a probe carries this stamp, which no operation has (`Fingerprint::pack`), and a tag of
/// sequence 0, which is before the first operation. One that comes late is of no interest to the group.
inline constexpr Stamp kProbeStamp = ~Stamp{0};

/// Runs a function with the right to drive the transport (`Engine::take_baton`).
using Guarded = std::function<void(const std::function<void()>&)>;

/// How long the two sides wait for each other before they give up.
struct ProbePatience {
  std::chrono::milliseconds first_answer{500};  ///< connections are made, and the peer may be late
  std::chrono::milliseconds answer{100};
  std::chrono::milliseconds silence{1000};  ///< of the asker
};

/// One side of the conversation. The asker names what to do, ping or stream, and takes the time; the other
/// side answers. Must outlive the transport, or the transport be aborted, unless `quiet()`: messages may
/// still be posted.
class ProbeTalk {
 public:
  ProbeTalk(Transport& transport, Rank peer, const Guarded& guarded, const ProbePatience& patience);
  ProbeTalk(const ProbeTalk&) = delete;
  ProbeTalk& operator=(const ProbeTalk&) = delete;

  /// Measures, within about 10 ms once the other side answers; nothing when it does not, or when anything
  /// else goes wrong.
  [[nodiscard]] std::optional<LinkMeasurement> ask();
  /// Answers until the asker is content, or silent for too long.
  void answer();
  /// Whether nothing is posted any more.
  [[nodiscard]] bool quiet() const noexcept;

 private:
  enum class Request : std::uint8_t { ping, stream, stop };
  static constexpr std::size_t kSlices = 4;
  static constexpr std::size_t kSliceBytes = std::size_t{256} << 10U;
  struct Channel {
    std::array<std::byte, 8> note{};  // the request, or its answer
    Completion note_done;
    std::vector<std::byte> slices;
    std::array<Completion, kSlices> slices_done;
  };

  [[nodiscard]] bool exchange(Request request, std::chrono::milliseconds limit);
  void post_note_receive();
  void post_note_send();
  void post_slices();
  [[nodiscard]] bool wait(std::chrono::milliseconds limit);
  [[nodiscard]] bool failed() const noexcept;
  [[nodiscard]] Tag note_tag() const noexcept { return Tag::make(0, 0, round_); }
  template <typename Predicate>
  [[nodiscard]] bool every(const Predicate& holds) const noexcept {
    const auto all = [&](const Channel& channel) {
      return holds(channel.note_done) &&
             std::all_of(channel.slices_done.begin(), channel.slices_done.end(), holds);
    };
    return all(in_) && all(out_);
  }

  Transport& transport_;
  Rank peer_;
  const Guarded& guarded_;
  ProbePatience patience_;
  Channel in_;
  Channel out_;
  std::uint32_t round_ = 0;
};

}  // namespace ucxring
