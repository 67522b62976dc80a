// Signals that UCX takes when it is loaded.
#pragma once

namespace ucxring::ucx {

/// Puts back the handlers that were there before UCX's library was loaded, for each signal that UCX still
/// handles: SIGHUP, and with some builds SIGSEGV, SIGBUS, SIGFPE and SIGILL. A crash is the program's own
/// business.
void give_back_signals() noexcept;

}  // namespace ucxring::ucx
