# Enables the CUDA language with nvcc from CUDA_HOME, /usr/local/cuda or PATH, and finds the runtime (CUDA::cudart).
find_program(UCXRING_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" /usr/local/cuda/bin REQUIRED)
set(CMAKE_CUDA_COMPILER "${UCXRING_NVCC}" CACHE FILEPATH "CUDA compiler")
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 75 80 90 100 120 CACHE STRING "GPU architectures to build for")
endif()
# CMake < 3.31 has no C++20 rule for nvcc 13; device headers keep to C++17.
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
