#include "collectives/probe_talk.hpp"

#include <thread>

namespace ucxring {
namespace {

using namespace std::chrono_literals;

constexpr int kPings = 64;
constexpr auto kPingTime = 2ms;
constexpr int kStreams = 4;
constexpr auto kStreamTime = 5ms;
constexpr int kPolls = 32;  // between looks at the clock

}  // namespace

ProbeTalk::ProbeTalk(Transport& transport, Rank peer, const Guarded& guarded, const ProbePatience& patience)
    : transport_(transport), peer_(peer), guarded_(guarded), patience_(patience) {
  in_.slices.resize(kSlices * kSliceBytes);
  out_.slices.resize(kSliceBytes);
}

std::optional<LinkMeasurement> ProbeTalk::ask() {
  const auto now = [&] { return transport_.context()->now(); };
  if (!exchange(Request::ping, patience_.first_answer)) return {};
  auto round_trip = Duration::max();
  const Time pings_begin = now();
  for (int i = 0; i < kPings && now() - pings_begin < kPingTime; ++i) {
    const Time begin = now();
    if (!exchange(Request::ping, patience_.answer)) return {};
    round_trip = std::min(round_trip, now() - begin);
  }
  auto stream = Duration::max();
  const Time streams_begin = now();
  for (int i = 0; i < kStreams && now() - streams_begin < kStreamTime; ++i) {
    const Time begin = now();
    if (!exchange(Request::stream, patience_.answer)) return {};
    stream = std::min(stream, now() - begin - round_trip);
  }
  if (!exchange(Request::stop, patience_.answer)) return {};
  const auto nanoseconds = [](Duration duration) {
    return std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count(), 1);
  };
  constexpr auto kBytes = static_cast<std::int64_t>(kSlices * kSliceBytes);
  return LinkMeasurement{nanoseconds(round_trip / 2),
                         std::max<std::int64_t>(kBytes * 1'000 / nanoseconds(stream), 1)};
}

void ProbeTalk::answer() {
  for (bool more = true; more; ++round_) {
    guarded_([&] { post_note_receive(); });
    if (!wait(patience_.silence)) return;
    const auto request = static_cast<Request>(in_.note[0]);
    more = request != Request::stop;
    if (request == Request::stream) {
      guarded_([&] { post_slices(); });
      if (!wait(patience_.silence)) return;
    }
    guarded_([&] { post_note_send(); });
    if (!wait(patience_.silence)) return;
  }
}

/// One request and its answer.
bool ProbeTalk::exchange(Request request, std::chrono::milliseconds limit) {
  guarded_([&] {
    post_note_receive();
    if (request == Request::stream) post_slices();
    out_.note[0] = static_cast<std::byte>(request);
    post_note_send();
  });
  ++round_;
  return wait(limit);
}

void ProbeTalk::post_note_receive() {
  const Status status = transport_.endpoint(peer_).receive_into({in_.note.data(), in_.note.size()},
                                                                note_tag(), kProbeStamp, in_.note_done);
  if (!status.ok()) in_.note_done.fail(status);
}

void ProbeTalk::post_note_send() {
  const Status status = transport_.endpoint(peer_).send(ConstBuffer(out_.note.data(), out_.note.size()),
                                                        note_tag(), kProbeStamp, out_.note_done);
  if (!status.ok()) out_.note_done.fail(status);
}

void ProbeTalk::post_slices() {
  Endpoint& endpoint = transport_.endpoint(peer_);
  for (std::uint32_t i = 0; i < kSlices; ++i) {
    const Tag tag = Tag::make(0, 1 + round_, i);
    const Status received = endpoint.receive_into({in_.slices.data() + i * kSliceBytes, kSliceBytes}, tag,
                                                  kProbeStamp, in_.slices_done[i]);
    if (!received.ok()) in_.slices_done[i].fail(received);
    const Status sent =
        endpoint.send(ConstBuffer(out_.slices.data(), kSliceBytes), tag, kProbeStamp, out_.slices_done[i]);
    if (!sent.ok()) out_.slices_done[i].fail(sent);
  }
}

/// Drives until everything posted is done; false when something failed or time is up.
bool ProbeTalk::wait(std::chrono::milliseconds limit) {
  const Time until = transport_.context()->now() + limit;
  for (;;) {
    bool done = false;
    guarded_([&] {
      for (int poll = 0; poll < kPolls && !done; ++poll) {
        transport_.context()->progress();
        done = quiet();
      }
    });
    if (done) return !failed();
    if (transport_.context()->now() >= until) return false;
    std::this_thread::yield();
  }
}

bool ProbeTalk::quiet() const noexcept {
  return every([](const Completion& done) { return done.finished(); });
}

bool ProbeTalk::failed() const noexcept {
  return !every([](const Completion& done) { return done.state != Completion::State::failed; });
}

}  // namespace ucxring
