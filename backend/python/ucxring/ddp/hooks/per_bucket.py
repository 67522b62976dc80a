"""What a hook keeps of each bucket from step to step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import torch
import torch.distributed as dist

Value = TypeVar("Value")


class PerBucket(Generic[Value]):
    """One value for each bucket, forgotten when the bucket comes with other parameters or in another order.

    That happens once: `DistributedDataParallel` rebuilds its buckets after the first step by the order in which
    gradients came, and a bucket of the same index and size may then hold something else. The value begins anew: of an
    error feedback, the rounding error of one step is lost, which is far less than what adding it to other parameters
    would do. The buckets are rebuilt on all ranks at once, so values that are equal on all ranks stay so.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[list[torch.Tensor], Value]] = {}

    def get(self, bucket: dist.GradBucket, make: Callable[[], Value]) -> Value:
        """The value for `bucket`, made by `make` when there is none or the bucket is another."""
        index, parameters = bucket.index(), bucket.parameters()
        entry = self._entries.get(index)
        if entry is None or not _same(entry[0], parameters):
            entry = parameters, make()
            self._entries[index] = entry
        return entry[1]


def keep_if(finite: torch.Tensor, kept: torch.Tensor, new: torch.Tensor) -> None:
    """Replaces the error `kept` for the next step by `new`, if `finite` (a bool tensor of one element) is true.

    A step whose gradients are not finite is skipped by the optimizer (`GradScaler`), so it must not count: the error of
    the step before stays.

    Errors that are added to the next step's gradients: Seide et al., 1-Bit Stochastic Gradient Descent, Interspeech
    2014; Karimireddy et al., Error Feedback Fixes SignSGD, ICML 2019. What compression leaves out comes later.
    """
    if not finite.is_cpu:  # without a wait for the device
        torch.where(finite, new, kept, out=kept)
    elif finite.item():
        kept.copy_(new)


def _same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))
