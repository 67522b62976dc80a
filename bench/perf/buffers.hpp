// The memory that a rank measures with.
#pragma once

#include <cstddef>
#include <memory>

#include "bench/perf/benchmarks.hpp"

namespace ucxring::perf {

/// Owner of bytes.
using Memory = std::shared_ptr<std::byte>;

/// Two vectors of the largest size, used for all sizes.
struct Buffers {
  Memory first;
  Memory second;
};

/// Allocates both, aligned to pages, as registered memory if `registered`. The only place that decides which
/// kind of memory is measured.
[[nodiscard]] Buffers make_buffers(std::size_t bytes, bool registered = false);

/// The calls' arguments in `buffers`: input and output each in one of the two, or in place.
[[nodiscard]] Call make_call(Communicator& communicator, const Benchmark& benchmark, const Problem& problem,
                             const Buffers& buffers, bool in_place);

}  // namespace ucxring::perf
