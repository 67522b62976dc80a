#include "transport/ucx/signals.hpp"

#include <dlfcn.h>
#include <ucs/debug/debug.h>

#include <csignal>
#include <string_view>

namespace ucxring::ucx {
namespace {

/// Whether the handler of `number` is UCX's: one that the program set since must stay.
bool is_held_by_ucx(int number) noexcept {
  struct sigaction current {};
  if (sigaction(number, nullptr, &current) != 0) return false;
  if (current.sa_handler == SIG_DFL || current.sa_handler == SIG_IGN) return false;
  Dl_info where{};
  if (dladdr(reinterpret_cast<void*>(current.sa_handler), &where) == 0 || where.dli_fname == nullptr)
    return false;
  return std::string_view(where.dli_fname).find("libucs") != std::string_view::npos;
}

}  // namespace

void give_back_signals() noexcept {
  for (const int number : {SIGHUP, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    if (is_held_by_ucx(number)) ucs_debug_disable_signal(number);
  }
}

}  // namespace ucxring::ucx
