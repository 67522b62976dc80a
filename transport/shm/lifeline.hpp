// How other processes see that this one has ended.
#pragma once

#include "transport/base/token.hpp"

namespace ucxring::shm {

/// A pipe whose writing end only this process holds, for as long as it lives. Others get the reading end: it
/// becomes readable (end of file) when this process has ended, however it ended, also across PID namespaces
/// and users. Children close their copy when they are forked, and do not get one when they execute a program.
struct Lifeline {
  Token process{};       ///< names this process
  int reading_end = -1;  ///< to be shown to others; kept open as long as the process lives
};

/// This process's lifeline, made by the first call; a forked child makes its own. Thread-safe. Throws `Error`
/// (transport) when there are no descriptors left.
[[nodiscard]] Lifeline process_lifeline();

}  // namespace ucxring::shm
