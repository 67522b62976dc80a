// The threads that complete the futures of one group.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <memory>

#include "transport/base/process.hpp"

namespace ucxring {

class WorkUcxring;

/// Waits for works, completes their futures and tells the group's hook: collectives oldest first, sends and
/// receives when they are done. The thread starts with the first work.
/// Callbacks of the futures run on it with no lock held, one after the other, so they may call collectives
/// and wait for them, for their futures, too: while a callback waits for a future that it asked for itself, a
/// second thread completes that one. Thread-safe. In a forked child of the process that made it there are no
/// such threads: `stop` and the destructor do nothing, the rest must not be called.
class FutureThread {
 public:
  FutureThread();
  ~FutureThread();
  FutureThread(const FutureThread&) = delete;
  FutureThread& operator=(const FutureThread&) = delete;

  void submit(c10::intrusive_ptr<WorkUcxring> work);

  /// Whether everything submitted is complete, callbacks included.
  [[nodiscard]] bool idle() const;

  /// Waits until everything submitted is complete, callbacks included; not for a callback that calls it. Runs
  /// `check` (null: nothing) every 50 ms with no lock held, and lets its exception out.
  void drain(void (*check)()) const;

  /// Ends the thread once everything submitted is complete; call it when the operations have ended or been
  /// failed. Waits a few seconds for callbacks, then leaves them to themselves. Later works are completed by
  /// `submit` itself.
  void stop();

  /// Whether the calling thread is one that runs callbacks.
  [[nodiscard]] static bool is_here() noexcept;

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);
  static void stand_by(const std::shared_ptr<State>& state, std::size_t level);
  void ensure_level(std::size_t level);

  const ProcessMark owner_;
  std::shared_ptr<State> state_;
};

}  // namespace ucxring
