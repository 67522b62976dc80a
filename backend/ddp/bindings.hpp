// The data-parallel wrapper's core for Python.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ucxring::ddp {

/// Adds Reducer and what belongs to it to ucxring._C.
void define_ddp(pybind11::module_& module);

}  // namespace ucxring::ddp
