#include "transport/shm/transport.hpp"

#include <fmt/format.h>

#include <utility>

#include "transport/base/shared_per_process.hpp"
#include "transport/shm/shm.hpp"

namespace ucxring::shm {

ShmTransport::ShmTransport(std::shared_ptr<ShmContext> context, Rank rank, int world_size,
                           std::unique_ptr<Outbox> outbox, Neighbours neighbours)
    : context_(std::move(context)),
      base_context_(context_),
      rank_(rank),
      world_size_(world_size),
      neighbours_(std::move(neighbours)),
      outbox_(std::move(outbox)),
      inbox_(rank, world_size, outbox_->view()),
      endpoints_(world_size) {
  connect_peers();
  outbox_->sleepers_fence(neighbours_.membarrier);
  inbox_.sleepers_fence(neighbours_.membarrier);
  inbox_.on_left = [this](Rank peer, const Status& why) { outbox_->forget(peer, why); };
  context_->add(*this);
}

ShmTransport::~ShmTransport() {
  context_->remove(*this);
  inbox_.set_listener(nullptr);
  abort(Status(ErrorCode::peer_lost, "this rank has left the group", rank_.value));
}

/// The size of a peer's arena is its own setting: what its region has beyond the rest.
OutboxView<const std::byte> ShmTransport::view_of(const RegionView& region) const {
  const std::size_t arena = region.bytes() - Layout::of(world_size_, 0).bytes;
  return {region.data(), Layout::of(world_size_, arena)};
}

void ShmTransport::connect_peers() {
  for (int peer = 0; peer < world_size_; ++peer) {
    const auto& found = neighbours_.peers[static_cast<std::size_t>(peer)];
    if (!found && peer != rank_.value) continue;
    const auto theirs = found ? view_of(found->outbox) : outbox_->view().for_reader();
    const auto neighbour = found ? found->neighbour : nullptr;
    outbox_->connect(Rank(peer), theirs, neighbour, !found || found->reads_pool);
    inbox_.connect(Rank(peer), theirs, neighbour);
  }
}

Endpoint& ShmTransport::endpoint(Rank peer) {
  Endpoint& found = endpoints_.get(*this, peer);
  if (reaches(peer)) return found;
  throw Error(ErrorCode::internal,
              fmt::format("rank {} shares no memory with rank {}", peer.value, rank_.value), peer.value);
}

Status ShmTransport::post_send(Rank peer, ConstBuffer data, Tag tag, Stamp stamp, Completion& done) {
  if (!failure_.ok()) return failure_;
  if (!inbox_.gone(peer).ok()) return inbox_.gone(peer);
  outbox_->send(peer, data, tag, stamp, done);
  activity_ |= done.finished();
  return {};
}

Status ShmTransport::post_receive(Rank peer, const PostedReceive& receive) {
  if (!failure_.ok()) return failure_;
  Status status = inbox_.post(peer, receive);
  activity_ |= receive.done->finished();
  return status;
}

void ShmTransport::post_control(Rank peer, std::span<const std::byte> message) {
  if (failure_.ok()) outbox_->send_control(peer, message);
}

bool ShmTransport::poll() {
  if (!failure_.ok()) return false;
  const bool received = inbox_.progress();
  const bool sent = failure_.ok() && outbox_->progress();
  activity_ |= received || sent;
  return received || sent;
}

bool ShmTransport::has_news() {
  if (!failure_.ok()) return false;
  if (!outbox_->progress()) return inbox_.has_news();
  activity_ = true;
  return true;
}

void ShmTransport::bury(const Neighbour& neighbour) {
  if (!failure_.ok()) return;
  for (int peer = 0; peer < world_size_; ++peer) {
    const auto& found = neighbours_.peers[static_cast<std::size_t>(peer)];
    if (!found || found->neighbour.get() != &neighbour) continue;
    const Status why(ErrorCode::peer_lost, "its process has ended", peer);
    inbox_.progress();  // what it sent before counts, and a farewell explains more than a death
    outbox_->forget(Rank(peer), why);
    inbox_.lose(Rank(peer), why, true);
    activity_ = true;
  }
}

void ShmTransport::abort(const Status& why) noexcept {
  if (!failure_.ok()) return;
  failure_ = why.ok() ? Status(ErrorCode::internal, "aborted") : why;
  inbox_.fail_all(failure_);
  outbox_->leave(failure_);
  activity_ = true;
}

std::shared_ptr<Context> make_context() { return std::make_shared<ShmContext>(); }

std::shared_ptr<Context> process_context() {
  static SharedPerProcess<Context> of_process;
  return of_process.get(&make_context);
}

Joined join(std::shared_ptr<Context> context, const std::shared_ptr<Store>& store, Rank rank, int world_size,
            std::chrono::milliseconds timeout, const Config& config) {
  auto own = std::dynamic_pointer_cast<ShmContext>(std::move(context));
  if (!own) {
    throw Error(ErrorCode::invalid_argument, "the context of a group over shared memory must come from shm");
  }
  if (world_size < 1 || rank.value < 0 || rank.value >= world_size) {
    throw Error(ErrorCode::invalid_argument, fmt::format("rank {} of {} ranks", rank.value, world_size));
  }
  std::optional<Region> region;
  std::string why_not;
  try {
    region = Region::create(Outbox::bytes_needed(world_size, config.shm_bytes), "ucxring-outbox");
  } catch (const Error& error) {
    why_not = error.status().message();
  }
  auto outbox = std::make_unique<Outbox>(rank, world_size, config.shm_bytes, std::move(region));
  Neighbours neighbours =
      meet(*store, rank, world_size, timeout, outbox->region(), why_not, own->here(), config);
  Joined joined{nullptr, neighbours.reason, neighbours.avoidable};
  joined.transport = std::make_unique<ShmTransport>(std::move(own), rank, world_size, std::move(outbox),
                                                    std::move(neighbours));
  return joined;
}

}  // namespace ucxring::shm
