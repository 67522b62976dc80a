# Finds the torch that UCXRING_PYTHON imports and makes the imported targets `ucxring_torch` (its C++ library) and
# `ucxring_torch_python` (its Python library, too, and the pybind11 that it ships).
#
# torch's own find_package(Torch) is not used: for a CUDA build it demands the whole CUDA toolkit even from a program
# with no device code, and CMake < 3.31 cannot satisfy it with CUDA 13. The libraries by path work for every build.
#
# Sets  UCXRING_TORCH_VERSION  e.g. 2.13.0+cpu
#       UCXRING_TORCH_CUDA     CUDA version that torch was built with, or empty
#       UCXRING_TORCH_ROOT     the folder `torch` in site-packages
execute_process(
  COMMAND "${UCXRING_PYTHON}" "${CMAKE_CURRENT_LIST_DIR}/find_torch.py"
  OUTPUT_VARIABLE torch_facts OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_VARIABLE torch_error ERROR_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE torch_result)
if(NOT torch_result EQUAL 0)
  message(FATAL_ERROR "${torch_error}")
endif()
string(REGEX MATCH "^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)$" torch_matched "${torch_facts}")
set(UCXRING_TORCH_ROOT "${CMAKE_MATCH_1}")
set(UCXRING_TORCH_VERSION "${CMAKE_MATCH_2}")
set(UCXRING_TORCH_CUDA "${CMAKE_MATCH_3}")
set(torch_includes "${CMAKE_MATCH_4}")
if(UCXRING_TORCH_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "ucxring needs torch 2.11 or newer; ${UCXRING_PYTHON} has ${UCXRING_TORCH_VERSION}")
endif()
message(STATUS "torch ${UCXRING_TORCH_VERSION} in ${UCXRING_TORCH_ROOT}")

set(Python_EXECUTABLE "${UCXRING_PYTHON}")
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)

set(torch_libraries)
foreach(name IN ITEMS torch torch_cpu c10 torch_cuda c10_cuda)
  if(EXISTS "${UCXRING_TORCH_ROOT}/lib/lib${name}.so")
    list(APPEND torch_libraries "${UCXRING_TORCH_ROOT}/lib/lib${name}.so")
  endif()
endforeach()

add_library(ucxring_torch INTERFACE IMPORTED GLOBAL)
target_include_directories(ucxring_torch SYSTEM INTERFACE ${torch_includes})
target_compile_definitions(ucxring_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
target_link_libraries(ucxring_torch INTERFACE ${torch_libraries})

add_library(ucxring_torch_python INTERFACE IMPORTED GLOBAL)
target_link_libraries(ucxring_torch_python INTERFACE
  "${UCXRING_TORCH_ROOT}/lib/libtorch_python.so" ucxring_torch Python::Module)
