#include "backend/ending.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include "backend/futures.hpp"

namespace ucxring {
namespace {

std::atomic<bool (*)()> held_back{nullptr};
std::atomic<std::thread::id> ending_thread;

}  // namespace

void begin_ending(bool (*holds_back)()) noexcept {
  ending_thread.store(std::this_thread::get_id());
  held_back.store(holds_back);
}

EndingGuard::~EndingGuard() {
  const auto holds_back = held_back.load();
  if (holds_back == nullptr || ending_thread.load() == std::this_thread::get_id()) return;
  // Who ends the interpreter waits for the threads of callbacks, which must come to their end.
  if (FutureThread::is_here() || !holds_back()) return;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(24));
}

}  // namespace ucxring
