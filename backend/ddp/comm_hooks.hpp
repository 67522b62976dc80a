// Comm hooks in C++: what replaces a bucket's all-reduce.
#pragma once

#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

namespace ucxring::ddp {

/// Given a bucket of local gradients, starts what makes them the mean over ranks, and returns a future whose
/// value is a list of one tensor with that mean, in the bucket's shape and dtype; it may be the bucket's own
/// buffer. Called in the same order on all ranks, from autograd's threads.
using CommHook = std::function<c10::intrusive_ptr<c10::ivalue::Future>(c10d::GradBucket& bucket)>;

/// The hook as the reducer takes it. Derive from torch's `CommHookInterface` directly where results need to
/// be parsed.
[[nodiscard]] std::unique_ptr<c10d::CommHookInterface> make_comm_hook(CommHook hook);

/// Sends gradients as bfloat16: half the bytes of float32, the same range, 8 bits of precision.
[[nodiscard]] CommHook bf16_compress(c10::intrusive_ptr<c10d::ProcessGroup> group);

}  // namespace ucxring::ddp
