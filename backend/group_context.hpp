// What the process group and its works share, so that works may outlive the group.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "backend/errors.hpp"
#include "backend/futures.hpp"
#include "backend/pending.hpp"
#include "collectives/communicator.hpp"
#include "transport/base/process.hpp"

namespace ucxring {

using CompletionHook = std::function<void(std::shared_ptr<c10d::WorkInfo>)>;

struct GroupContext {
  /// Throws in a forked child of the process that made the group: its locks may be held for ever there.
  void require_here() const {
    if (!owner.is_here()) throw_elsewhere();
  }
  [[noreturn]] void throw_elsewhere() const {
    const Status why(
        ErrorCode::invalid_argument,
        "group '" + name + "' belongs to the process that made it; a forked child must make its own");
    std::rethrow_exception(to_torch_exception(why, description));
  }

  ProcessMark owner;
  std::string name;  ///< "world"
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
