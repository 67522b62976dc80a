#include "backend/interrupt.hpp"

#include <pybind11/pybind11.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ucxring {
namespace {

/// Python runs signal handlers on the thread that started it, which for the interpreter's own program is the
/// first one.
bool on_first_thread() { return ::syscall(SYS_gettid) == ::getpid(); }

bool interpreter_is_running() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() != 0 && Py_IsFinalizing() == 0;
#else
  return Py_IsInitialized() != 0 && _Py_IsFinalizing() == 0;
#endif
}

}  // namespace

void check_python_interrupt() {
  if (!on_first_thread() || !interpreter_is_running()) return;
  const pybind11::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

bool is_unlocked_python_thread() {
  return PyGILState_GetThisThreadState() != nullptr && PyGILState_Check() == 0;
}

}  // namespace ucxring
