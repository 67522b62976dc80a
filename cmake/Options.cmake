# Build variants that are the same for every target: warnings, sanitizers, coverage, compiler cache.
option(UCXRING_WERROR "Treat warnings as errors" OFF)
option(UCXRING_COVERAGE "Measure line coverage; the target coverage-report prints it" OFF)
set(UCXRING_SANITIZE "" CACHE STRING "Sanitizers, comma list as for -fsanitize: address,undefined or thread")

add_library(ucxring_warnings INTERFACE)
target_compile_options(ucxring_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow
                                                  $<$<BOOL:${UCXRING_WERROR}>:-Werror>)

find_program(UCXRING_CCACHE ccache)
if(UCXRING_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  # Objects do not depend on where the tree and the build lie, so that builds with equal flags share them.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_BASEDIR=${PROJECT_SOURCE_DIR};CCACHE_NOHASHDIR=1;${UCXRING_CCACHE}"
      CACHE STRING "Command put before the compiler")
endif()

if(UCXRING_SANITIZE)
  add_compile_options(-fsanitize=${UCXRING_SANITIZE} -O1 -g1 -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${UCXRING_SANITIZE})
endif()

if(UCXRING_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
  add_custom_target(coverage-report
    COMMAND "${UCXRING_PYTHON}" -m gcovr --root "${PROJECT_SOURCE_DIR}" --filter transport/ --filter collectives/
            --print-summary --txt "${PROJECT_BINARY_DIR}/coverage.txt" --html-details "${PROJECT_BINARY_DIR}/coverage.html"
            "${PROJECT_BINARY_DIR}"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" VERBATIM)
endif()
