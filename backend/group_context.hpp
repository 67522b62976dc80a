// What the process group and its works share, so that works may outlive the group.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "backend/futures.hpp"
#include "backend/pending.hpp"
#include "collectives/communicator.hpp"

namespace ucxring {

using CompletionHook = std::function<void(std::shared_ptr<c10d::WorkInfo>)>;

struct GroupContext {
  int rank = 0;
  std::string description;              ///< "group world, rank 1 of 4", for messages
  std::atomic<std::uint64_t> works{0};  ///< made so far
  /// Somebody wants to know of every work when it ends: the hook, or who asked for timing. Once set, works
  /// are finished by the thread of the futures as soon as they end.
  std::atomic<bool> observed{false};
  /// Called for each finished work; may be null.
  std::atomic<std::shared_ptr<const CompletionHook>> on_completion;
  PendingWorks pending;
  FutureThread futures;
  std::weak_ptr<Communicator> communicator;  ///< owned by the process group
};

}  // namespace ucxring
