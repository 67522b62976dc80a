// The progress engine: who drives the contexts of a process, and how waiting threads sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/base/descriptor.hpp"
#include "transport/base/process.hpp"
#include "transport/transport.hpp"

namespace ucxring {

/// Something with operations in flight: a group. All calls are made by the thread that holds the engine's
/// baton.
class Driven {
 public:
  virtual ~Driven() = default;
  /// Moves whatever can move; true when anything did.
  virtual bool advance(Time now) = 0;
  /// When `advance` must be called even if nothing moves (deadlines); `Time::max()` for never.
  [[nodiscard]] virtual Time next_deadline() const noexcept = 0;
  /// Whether operations are in flight.
  [[nodiscard]] virtual bool busy() const noexcept = 0;
};

/// Drives contexts and groups. The thread that waits for an operation drives; when nobody waits, one
/// background thread does; when nothing happens, everybody sleeps in the kernel. Thread-safe.
class Engine {
 public:
  struct Options {
    std::chrono::microseconds spin{50};  ///< longest busy wait before a waiter sleeps; it adapts below that
    bool background = true;              ///< false: progress only while somebody waits (simulator, tests)
  };

  explicit Engine(Options options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// The engine that all groups of this process share; a forked child makes its own. Its background thread
  /// ends at process exit. The options of the first call count.
  [[nodiscard]] static Engine& process(Options options);

  /// False in a forked child of the process that made it: nothing else may be called then.
  [[nodiscard]] bool is_here() const noexcept { return owner_.is_here(); }

  /// The right to drive and to call transports. Release it before anything that may block or run user code.
  class Baton {
   public:
    explicit Baton(Engine& engine);

   private:
    std::unique_lock<std::mutex> lock_;
  };
  [[nodiscard]] Baton take_baton() { return Baton(*this); }

  /// Adds and removes what is driven. The context is polled as long as a group on it is attached.
  void attach(Driven& driven, std::shared_ptr<Context> context);
  void detach(Driven& driven);

  /// Makes sure somebody drives soon: call after starting work that nobody waits for. Not with the baton
  /// held.
  void kick();

  /// Whether operations are in flight. With the baton held.
  [[nodiscard]] bool any_busy() const;
  /// Whether a thread waits or operations are in flight. With the baton held.
  [[nodiscard]] bool anyone_waits() const { return driving_.load(std::memory_order_relaxed) || any_busy(); }
  /// Wakes whoever sleeps in the kernel, to look around and go to sleep again: call it after peers have been
  /// told that they need not wake this process. Not with the baton held.
  void stir() noexcept;

  /// Drives, or sleeps while another thread drives, until `done` or the time `until` of `clock` (null: steady
  /// clock). Returns whether `done`. Runs the interrupt check at least every 50 ms and lets its exception
  /// out.
  bool wait(const std::atomic<bool>& done, Time until, const Context* clock = nullptr);

  /// One poll of everything; true when something moved. For tests and for callers that poll.
  bool poll();

  /// Says that ranks of this host are waited for, which answer within microseconds when they run: who waits
  /// offers its core to others for a while before it sleeps, at once if `cores_are_shared`.
  void expect_neighbours(bool cores_are_shared) noexcept {
    yields_.store(true, std::memory_order_relaxed);
    if (cores_are_shared) cores_are_shared_.store(true, std::memory_order_relaxed);
  }
  /// How often a caller that holds the baton may look for a message, with a pause between, before it lets the
  /// engine wait. The caller drives meanwhile.
  [[nodiscard]] int looks() noexcept {
    drives_.store(drives_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return cores_are_shared_.load(std::memory_order_relaxed) ? kFewLooks : looks_;
  }
  /// Threads that wait for the baton.
  [[nodiscard]] const std::atomic<int>& contenders() const noexcept { return contenders_; }

  /// Called by waiting threads without any lock held, to notice Ctrl-C; may throw. Null removes it.
  /// Process-wide.
  using InterruptCheck = void (*)();
  static void set_interrupt_check(InterruptCheck check) noexcept;

 private:
  struct Polled {
    std::shared_ptr<Context> context;
    int groups;
  };
  struct Attached {
    Driven* driven;
    Context* context;
  };

  /// A place where a thread sleeps in the kernel and can be woken.
  struct Bed {
    Descriptor event;
    std::atomic<bool> occupied{false};
    void wake() noexcept;
  };

  bool drive_once();
  bool arm_all();
  bool skip_virtual_time(Time until);
  bool busy();
  void sleep(Bed& bed, Time until);
  void adapt(Duration slept) noexcept;
  void drive(const std::atomic<bool>& done, Time until, const Context* clock);
  void sleep_while_driven(const std::atomic<bool>& done, Time until, const Context* clock);
  void wake_sleepers();

  // engine_background.cpp
  void run_background();
  void nap();
  bool in_burst();
  void rest();
  void stop_background();
  [[nodiscard]] Time earliest_deadline();

  static constexpr int kFewLooks = 1;

  const ProcessMark owner_;
  Options options_;
  int looks_;
  std::atomic<bool> yields_{false};
  std::atomic<bool> cores_are_shared_{false};
  Bed driver_bed_;
  Bed background_bed_;

  std::mutex baton_;
  std::atomic<int> contenders_{0};
  std::vector<Polled> contexts_;    // under baton_
  std::vector<Attached> attached_;  // under baton_

  std::atomic<bool> driving_{false};  // a waiting thread is the driver
  std::atomic<std::uint64_t> drives_{0};
  std::atomic<int> sleepers_{0};
  std::mutex sleep_mutex_;
  std::condition_variable sleep_changed_;
  std::atomic<std::int64_t> spin_ns_;
  std::atomic<std::int64_t> yield_ns_;

  std::mutex background_mutex_;
  std::condition_variable background_changed_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> kicked_{false};
  std::atomic<std::uint64_t> kicks_{0};
  std::uint64_t counted_kicks_ = 0;  // by the background thread
  Time counted_at_{};                // likewise
  std::thread background_;
};

}  // namespace ucxring
