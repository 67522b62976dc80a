#include "transport/shm/lifeline.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "transport/base/descriptor.hpp"
#include "transport/base/error.hpp"

namespace ucxring::shm {
namespace {

/// Never destroyed: the end of the process closes the pipe.
struct Pipe {
  std::mutex mutex;  // held across fork, so that the child finds the rest as it is
  Lifeline lifeline;
  int writing_end = -1;
};

Pipe& pipe_of_process() {
  static auto* const pipe = new Pipe;
  return *pipe;
}

void close_in_child() {
  Pipe& pipe = pipe_of_process();
  if (pipe.writing_end >= 0) {
    close_descriptor(pipe.writing_end);
    close_descriptor(pipe.lifeline.reading_end);
    pipe.writing_end = -1;
  }
  pipe.mutex.unlock();
}

void register_fork_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork([] { pipe_of_process().mutex.lock(); }, [] { pipe_of_process().mutex.unlock(); },
                   &close_in_child);
  });
}

}  // namespace

Lifeline process_lifeline() {
  register_fork_handlers();
  Pipe& pipe = pipe_of_process();
  const std::lock_guard lock(pipe.mutex);
  if (pipe.writing_end < 0) {
    const Token process = random_token();
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw Error(ErrorCode::transport,
                  fmt::format("cannot make a pipe: {}; raise the limit on open files (ulimit -n)",
                              std::strerror(errno)));
    }
    pipe.lifeline = {process, ends[0]};
    pipe.writing_end = ends[1];
  }
  return pipe.lifeline;
}

}  // namespace ucxring::shm
