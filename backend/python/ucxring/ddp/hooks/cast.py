"""Gradients in 16 bits on the wire."""

# No postponed annotations here: DistributedDataParallel compares those of a hook with the types themselves.
from typing import Any

import torch
import torch.distributed as dist

from ucxring.ddp.hooks.groups import flat_floats, or_world, start_average


def fp16_compress(state: dist.ProcessGroup | None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages the bucket as float16: 2 bytes per number, 11 bits of precision, nothing above 65504.

    What is larger becomes infinite, on all ranks: train with a `GradScaler`, which then skips the step and scales less.
    Micikevicius et al., Mixed Precision Training, ICLR 2018.

    Args:
        state: the group, None for the default group.
        bucket: gradients of any floating or complex type.

    """
    return _average_as(torch.float16, state, bucket)


def bf16_compress(state: dist.ProcessGroup | None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages the bucket as bfloat16: 2 bytes per number, 8 bits of precision, the range of float32.

    Needs no scaling. Kalamkar et al., A Study of BFLOAT16 for Deep Learning Training, 2019 (arXiv:1905.12322).

    Args:
        state: the group, None for the default group.
        bucket: gradients of any floating or complex type.

    """
    return _average_as(torch.bfloat16, state, bucket)


def _average_as(
    dtype: torch.dtype, group: dist.ProcessGroup | None, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    buffer = bucket.buffer()
    floats = flat_floats(buffer)
    # A bucket of this type already is averaged where it lies.
    narrow = floats.to(dtype)

    def widen(done: torch.futures.Future[Any]) -> torch.Tensor:
        done.value()  # raises what went wrong
        if narrow is not floats:
            floats.copy_(narrow)
        return buffer

    return start_average(narrow, or_world(group)).then(widen)
