#include "collectives/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "transport/base/log.hpp"

namespace ucxring {

Group::Group(std::unique_ptr<Transport> transport, Engine& engine, const Communicator::Options& options)
    : engine_(engine),
      transport_(std::move(transport)),
      shared_(transport_->shared_memory()),
      rank_(transport_->rank()),
      world_size_(transport_->world_size()),
      transport_name_(transport_->name()),
      name_(options.name),
      context_(transport_->context()),
      timeout_ms_(options.timeout.count()),
      plans_({rank_, world_size_, transport_->hosts(), shared_, options.config, options.parameters}),
      config_(options.config),
      peers_(*transport_, config_) {
  {
    const auto baton = engine_.take_baton();
    transport_->set_listener(this);
  }
  if (shared_ != nullptr && world_size_ > 1) engine_.expect_neighbours(shared_->oversubscribed());
  engine_.attach(*this, context_);
}

Group::~Group() { shutdown(); }

Operation Group::start(const Fingerprint& fingerprint, const OperationBuffers& buffers,
                       const CallOptions& call, const UnevenCounts& counts) {
  if (!is_here()) is_elsewhere().throw_if_error();
  bool stirs = false;
  Operation operation = [&] {
    const auto baton = engine_.take_baton();
    return start_now(fingerprint, buffers, call, counts, stirs);
  }();
  if (stirs) engine_.stir();
  if (!call.wait_soon && !operation.done()) engine_.kick();
  return operation;
}

/// `stirs` becomes true if peers were told that they need not wake this process, though some thread of it
/// sleeps while operations are in flight.
Operation Group::start_now(const Fingerprint& fingerprint, const OperationBuffers& buffers,
                           const CallOptions& call, const UnevenCounts& counts, bool& stirs) {
  if (!alive()) refuse(fingerprint.describe());
  const auto& plan = plans_.get(fingerprint, counts);
  const auto sequence = sequence_.load(std::memory_order_relaxed) + 1;
  begin(*plan, sequence);
  Progress begun;
  const bool alone = active_.empty() && waiting_.empty() && sequence < mismatched_;
  if (call.wait_soon && plan->immediate && shared_ != nullptr && alone) {
    stirs = shared_->stay_awake() && engine_.any_busy();
    begun = run_immediately(*plan, buffers, sequence);
    if (begun.moves == plan->moves.list.size()) {
      if (shared_->overlooked()) look_back(fingerprint, sequence);
      return Operation(sequence);
    }
  }
  auto execution = idle_execution();
  const auto timeout = call.timeout.count() > 0 ? call.timeout : this->timeout();
  execution->prepare(plan, buffers, *transport_, {sequence, context_->now(), timeout, begun});
  execution->set_waiting(engine_, context_->event_fd() < 0 ? context_.get() : nullptr);
  waiting_.push_back(execution);
  admit();
  advance_operations();
  return Operation(std::move(execution));
}

/// What a forked child is told.
Status Group::is_elsewhere() const {
  return {
      ErrorCode::invalid_argument,
      fmt::format("group '{}' belongs to the process that made it; a forked child must make its own", name_)};
}

bool Group::outlives_report() {
  settle_failures(context_->now());
  return failure_.ok();
}

void Group::refuse(const std::string& call) const {
  if (shut_down_) throw Error(failure_.code(), fmt::format("{}: {}", call, failure_.message()));
  throw Error(
      failure_.code(),
      fmt::format("{}: group '{}' failed earlier and cannot be used any more: {}; destroy it and make a "
                  "new group",
                  call, name_, failure_.message()),
      failure_.peer());
}

/// Takes the next sequence number for an operation, and compares it with what a peer has announced under it.
void Group::begin(const Plan& plan, std::uint64_t sequence) {
  sequence_.store(sequence, std::memory_order_relaxed);
  ours_[sequence % kRemembered] = {sequence, plan.stamp, rank_.value};
  for (const auto* heard : {&early_, &early_others_}) {
    const Called& early = (*heard)[sequence % kRemembered];
    if (early.sequence != sequence || early.stamp == plan.stamp) continue;
    return report_mismatch(sequence, early.rank, early.stamp, own(plan));
  }
}

Progress Group::run_immediately(const Plan& plan, const OperationBuffers& buffers, std::uint64_t sequence) {
  const ImmediateRun run{plan, *shared_, sequence, engine_.looks(), engine_.contenders()};
  return run.run(buffers);
}

/// Operation `sequence` is done, but messages have been passed over for it: one may tell of a mismatch.
void Group::look_back(const Fingerprint& fingerprint, std::uint64_t sequence) {
  context_->progress();
  if (sequence >= mismatched_ && !alive()) refuse(fingerprint.describe());
}

/// An execution that nobody refers to any more, or a new one.
std::shared_ptr<Execution> Group::idle_execution() {
  constexpr std::size_t kProbes = 4;
  for (std::size_t i = 0; i < std::min(kProbes, pool_.size()); ++i) {
    auto& candidate = pool_[pool_cursor_++ % pool_.size()];
    if (candidate.use_count() == 1 && candidate->done()) return candidate;
  }
  auto made = std::make_shared<Execution>();
  if (pool_.size() < kPoolSize) pool_.push_back(made);
  return made;
}

/// Posts waiting operations in order, as many as may be in flight.
void Group::admit() {
  while (!waiting_.empty() && active_.size() < kMaxInFlight) {
    active_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    dirty_ = true;
  }
}

bool Group::advance(Time now) {
  bool moved = false;
  // Before a failure that was heard of ends everything: what has already arrived still completes operations.
  if (failure_.ok() && (transport_->take_activity() || dirty_)) moved = advance_operations();
  if (settle_failures(now)) return true;
  if (busy() && now >= next_deadline()) check_deadlines(now);
  return moved;
}

bool Group::advance_operations() {
  bool moved = false;
  bool held = false;
  dirty_ = false;
  for (std::size_t i = 0; i < active_.size() && active_[i]->sequence() < mismatched_; ++i) {
    moved |= active_[i]->advance();
    held |= active_[i]->held();
    if (active_[i]->done() || active_[i]->trouble().status.ok()) continue;
    const Status why = explain(*active_[i]);
    report(why, rank_.value, why.code() == ErrorCode::peer_lost ? grace(why.peer()) : Duration{});
    return settle_failures(context_->now());
  }
  std::erase_if(active_, [](const auto& execution) { return execution->done().load(); });
  const bool more = !waiting_.empty();
  admit();
  if (more && dirty_) advance_operations();
  dirty_ |= held;  // to be looked at again in the next round, even if nothing arrives
  return advance_peers() || moved;
}

/// Takes note of a failure. The first one counts, but one that is still in its time of grace gives way to a
/// better explanation: a connection may break because its peer has left after a failure that we have yet to
/// hear of.
void Group::report(const Status& why, int origin, Duration grace) {
  if (!failure_.ok() || (!reported_.ok() && grace > Duration{})) return;
  if (!reported_.ok() && report_due_ == Time{}) return;
  reported_ = why;
  report_origin_ = origin;
  report_due_ = grace > Duration{} ? context_->now() + grace : Time{};
}

/// A mismatch that this rank has seen itself. The peer's messages of later operations may have come with the
/// one that gave it away: those operations are not done, although they could be.
void Group::report_mismatch(std::uint64_t sequence, int peer, Stamp theirs, const Own& ours) {
  mismatched_ = std::min(mismatched_, sequence);
  report(mismatch(sequence, peer, theirs, ours), rank_.value, {});
}

bool Group::settle_failures(Time now) {
  if (reported_.ok() || !failure_.ok() || now < report_due_) return false;
  fail(reported_, report_origin_);
  return true;
}

/// The newest sequence number up to which all operations are complete.
std::uint64_t Group::completed() const noexcept {
  auto completed = sequence_.load();
  for (const auto& execution : active_) {
    if (!execution->done()) completed = std::min(completed, execution->sequence() - 1);
  }
  for (const auto& execution : waiting_) completed = std::min(completed, execution->sequence() - 1);
  return completed;
}

/// Every rank tells all others before it closes its connections, so that nobody sees them break without
/// knowing why.
void Group::fail(Status why, int origin) {  // NOLINT(performance-unnecessary-value-param): may be a member
  if (!failure_.ok()) return;
  failure_ = why;
  reported_ = {};
  inquiry_.reset();
  log::debug("group '{}' failed: {}", name_, why.message());
  if (origin != kTellNobody)
    announce({ControlMessage::Kind::failure, why.code(), why.peer(), origin, sequence_.load(), completed(),
              std::string(why.message())});
  if (transport_) transport_->abort(why);
  for (auto& execution : active_) {
    if (!execution->done()) execution->fail(why);
  }
  for (auto& execution : waiting_) execution->fail(why);
  peers_.fail(why);
  active_.clear();
  waiting_.clear();
}

void Group::announce(const ControlMessage& message) {
  const auto wire = encode(message);
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer != rank_.value) transport_->endpoint(Rank(peer)).send_control(wire);
  }
}

void Group::abort(const Status& why) {
  if (!is_here()) return;
  {
    const auto baton = engine_.take_baton();
    if (closed_) return;
    fail(why, rank_.value);
  }
  engine_.kick();
}

void Group::shutdown() {
  if (!is_here()) return;
  drain();
  {
    const auto baton = engine_.take_baton();
    if (closed_) return;
    closed_ = true;
    if (!active_.empty() || !waiting_.empty() || peers_.busy()) {
      // The farewell tells those peers who still need this rank.
      fail({ErrorCode::transport,
            fmt::format("rank {} shut group '{}' down while operations were in flight", rank_.value, name_)},
           kTellNobody);
    }
    if (failure_.ok()) {
      shut_down_ = true;
      failure_ = {
          ErrorCode::invalid_argument,
          fmt::format("group '{}' was shut down on this rank and takes no more calls; make a new group",
                      name_)};
    }
  }
  engine_.kick();
  close();
}

/// Gives operations that nobody waited for a moment to end by themselves. No interrupt check: this may run in
/// a destructor.
void Group::drain() {
  constexpr auto kPause = std::chrono::microseconds(50);
  Time until{};
  for (bool first = true;; first = false) {
    {
      const auto baton = engine_.take_baton();
      if (closed_ || !failure_.ok() || (active_.empty() && waiting_.empty() && !peers_.moving())) return;
      if (first) until = context_->now() + kDrainTime;
      if (context_->now() >= until) return;
      if (context_->event_fd() < 0) return;  // virtual time does not pass by itself
    }
    if (!engine_.poll()) std::this_thread::sleep_for(kPause);
  }
}

/// Gives the transport back: with the baton, since that drives the context; the engine must not call us
/// meanwhile. The last group of a context lets go of it, too, which sees to it that farewells are sent.
void Group::close() {
  engine_.detach(*this);
  const auto context = std::move(context_);  // ends after the baton
  const auto baton = engine_.take_baton();
  transport_->set_listener(nullptr);
  transport_.reset();
}

Status Group::status() const {
  if (!is_here()) return is_elsewhere();
  const auto baton = engine_.take_baton();
  return failure_;
}

}  // namespace ucxring
