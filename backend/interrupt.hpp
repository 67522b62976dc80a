// How Ctrl-C reaches threads that wait in C++.
#pragma once

namespace ucxring {

/// On Python's main thread: runs pending signal handlers and throws what they raise (KeyboardInterrupt).
/// Elsewhere, and when the interpreter is not running or is ending, it does nothing. Cheap enough for twenty
/// calls a second; not with a lock held.
void check_python_interrupt();

/// Whether Python knows this thread, which does not hold its lock.
[[nodiscard]] bool is_unlocked_python_thread();

}  // namespace ucxring
