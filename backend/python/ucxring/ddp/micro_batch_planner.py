"""Splits batches into micro-batches that fit into a limit of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ucxring.ddp import nested
from ucxring.ddp.memory import Loss, peak_bytes

_IMPOSSIBLE = 1 << 40  # stands for a number of micro-batches that no batch has


@dataclass(frozen=True)
class Plan:
    """How batches are split: `samples` per micro-batch, and what one of that size was seen to take, in bytes."""

    samples: int
    steps: int  # micro-batches of the batch that was tried, the same on all ranks
    bytes: int
    limit: int


class MicroBatchPlanner:
    """Finds once how many samples fit, and then splits every batch accordingly.

        planner = MicroBatchPlanner(ddp, compute_loss, memory_limit=2 << 30)
        for batch in loader:
            for micro in ddp.accumulate(planner.split(batch)):
                micro.backward(compute_loss(ddp, micro.data))
            optimizer.step()
            optimizer.zero_grad()

    `compute_loss(model, batch)` is forward and loss. `memory_limit` is in bytes and counts what forward and backward
    allocate at their peak on top of the model, its gradients and the batch: outputs of operators, kept for backward or
    not, and each parameter's gradient until it is added to the one kept.

    The first `split` is collective: all ranks of `group` (None: the default group) try a few small micro-batches and
    agree on the largest number of micro-batches that one of them needs. The trials leave no trace: gradients, buffers
    and random numbers are as before, and hooks of the wrapper do not run. Later calls are local. Let the first batch be
    as large as any that follows, in the length of texts for instance.

    Reentrant checkpointing cannot be tried (torch refuses gradients of chosen tensors there): take
    ``use_reentrant=False``.
    """

    def __init__(
        self, ddp: nn.Module, compute_loss: Loss, memory_limit: int, group: dist.ProcessGroup | None = None
    ) -> None:
        if memory_limit <= 0:
            raise ValueError(f"memory_limit must be positive, not {memory_limit}")
        is_wrapper = hasattr(ddp, "no_sync") and isinstance(getattr(ddp, "module", None), nn.Module)
        self._module: nn.Module = ddp.module if is_wrapper else ddp
        self._compute_loss, self._limit, self._group = compute_loss, memory_limit, group
        self.plan: Plan | None = None  # after the first `split`

    def split(self, batch: Any) -> list[Any]:
        """Splits `batch` into micro-batches that fit, as `ucxring.ddp.split` does.

        Raises MemoryError, on all ranks, when a single sample takes more than the limit on one of them.
        """
        count = nested.sample_count(batch)
        if not count:
            raise ValueError("cannot plan for a batch without samples: it needs a tensor with dimension 0")
        if self.plan is None:
            self.plan = self._make_plan(batch, count)
            return nested.split(batch, self.plan.steps)
        return nested.split(batch, -(-count // self.plan.samples))

    def _make_plan(self, batch: Any, count: int) -> Plan:
        """Estimates from two small trials, then tries the estimate; every rank takes the same decisions."""
        few, more = min(2, count), min(4, count)
        first, second = self._trial(batch, few), self._trial(batch, more)
        slope = (second - first) / (more - few) if more > few else first / few
        steps = self._agree(self._steps_for(count, (self._limit - first) / max(slope, 1.0) + few))
        while True:
            samples = -(-count // min(steps, count))
            seen = self._trial(batch, samples)
            fits = seen <= self._limit
            wanted = steps if fits else _IMPOSSIBLE if samples == 1 else self._fewer(count, samples, seen)
            agreed = self._agree(wanted)
            if agreed == steps:
                return Plan(samples, steps, seen, self._limit)
            if agreed >= _IMPOSSIBLE:
                raise MemoryError(self._refusal(seen, samples))
            steps = agreed

    def _steps_for(self, count: int, samples: float) -> int:
        """Micro-batches of at most `samples` samples; at least one sample each: whether that fits is then tried."""
        return -(-count // max(1, min(count, int(samples))))

    def _fewer(self, count: int, samples: int, seen: int) -> int:
        """Micro-batches for the next trial after one of `samples` took `seen` bytes, more than the limit."""
        return self._steps_for(count, min(samples - 1, samples * self._limit / seen))

    def _trial(self, batch: Any, samples: int) -> int:
        """Bytes that forward and backward of the first `samples` samples take."""
        return peak_bytes(self._module, self._compute_loss, nested.head(batch, samples))

    def _agree(self, steps: int) -> int:
        """The largest number on any rank."""
        if not dist.is_initialized():
            return steps
        device = next((each.device for each in self._module.parameters()), torch.device("cpu"))
        value = torch.tensor(steps, dtype=torch.int64, device=device)
        dist.all_reduce(value, dist.ReduceOp.MAX, group=self._group)
        return int(value)

    def _refusal(self, seen: int, samples: int) -> str:
        own = f"{samples} sample{'s' if samples > 1 else ''} took {seen / 2**20:.1f} MiB here"
        return (
            f"a single sample does not fit into memory_limit, {self._limit / 2**20:.1f} MiB, on at least one rank "
            f"({own}): raise the limit, or use activation checkpointing (torch.utils.checkpoint)"
        )
