"""One of the systems that a run compares: a wrapper over a backend, with a model of its own."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ucxring.bench.overlap import tasks
from ucxring.bench.overlap.plan import PLAIN, SystemName
from ucxring.bench.overlap.ready_made import ReadyMade
from ucxring.ddp import MicroBatch, accumulate, hooks
from ucxring.examples import common
from ucxring.examples.backward_clock import BackwardClock

Hook = Callable[[Any, dist.GradBucket], torch.futures.Future[Tensor]]
HOOKS: dict[str, tuple[Callable[[dist.ProcessGroup], object], Hook]] = {  # name: state for a group, hook
    "fp16": (lambda group: group, hooks.fp16_compress),
    "bf16": (lambda group: group, hooks.bf16_compress),
    "int8": (lambda group: hooks.Int8State(group), hooks.int8_compress),
}


@dataclass(frozen=True)
class Step:
    """Seconds of one step.

    `passes`: forwards and backwards, the slowest rank's. `whole`: with the optimizer. `after_last_gradient`: from the
    last gradient to the end of backward, on the rank where that is shortest: it waits for nobody. By ucxring's own
    timing (0 for other wrappers) `own_exposed` is the same, and `own_reducing` the time from the first bucket's start
    to the last one's end.
    """

    passes: float
    whole: float
    after_last_gradient: float
    own_exposed: float
    own_reducing: float


class System:
    """A wrapper over a group of its own, or the plain module."""

    def __init__(self, name: SystemName, network: nn.Module) -> None:
        self.name = name
        self.model: nn.Module = ReadyMade(copy.deepcopy(network))
        if name.wrapper != PLAIN:
            group = dist.new_group(backend=name.backend)
            self.model = common.wrap(self.model, name.wrapper, group)
            if name.hook in HOOKS:
                make_state, hook = HOOKS[name.hook]
                self.model.register_comm_hook(make_state(group), hook)
        self.clock = BackwardClock(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def gradients(self, batches: Sequence[tasks.Batch]) -> Tensor:
        """The averaged gradients of a step, one after another. They are gone afterwards, nothing is trained."""
        for micro in accumulate(self.model, batches):
            self._pass(micro)
        found = torch.cat([each.grad.flatten() for each in self.model.parameters() if each.grad is not None])
        self.optimizer.zero_grad()
        return found

    def step(self, batches: Sequence[tasks.Batch], communicate: bool) -> Step:
        """One step of the training. Without communication its gradients are thrown away."""
        dist.barrier()
        start = time.perf_counter()
        with contextlib.nullcontext() if communicate else self.model.no_sync():
            for micro in accumulate(self.model, batches):
                self._pass(micro)
        passed = time.perf_counter()
        if communicate:
            self.optimizer.step()
        self.optimizer.zero_grad()
        return self._over_ranks(passed - start, time.perf_counter() - start)

    def communication(self) -> float:
        """Seconds of a backward that computes nothing: its gradients are there when it begins. The slowest rank's."""
        handed_over = self.model(None)
        dist.barrier()
        start = time.perf_counter()
        handed_over.backward()
        seconds = torch.tensor(time.perf_counter() - start)
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
        self.optimizer.zero_grad()
        return float(seconds)

    def _pass(self, micro: MicroBatch) -> None:
        inputs, labels = micro
        loss = tasks.loss(self.model(inputs), labels)
        with self.clock:
            micro.backward(loss)

    def _over_ranks(self, passes: float, whole: float) -> Step:
        """The longest passes and steps; the least of the others, which hold the waiting for slower ranks."""
        exposed, reducing = self._own_times()
        least = torch.tensor([self.clock.after_last_gradient, exposed, reducing], dtype=torch.float64)
        times = torch.cat([torch.tensor([passes, whole], dtype=torch.float64), -least])
        dist.all_reduce(times, dist.ReduceOp.MAX)
        return Step(*times[:2].tolist(), *(-times[2:]).tolist())

    def _own_times(self) -> tuple[float, float]:
        if self.name.wrapper != "ucxring":
            return 0.0, 0.0
        timings = self.model.reducer.take_timings()
        if not timings or not timings[-1].buckets:
            return 0.0, 0.0
        last = timings[-1]
        reducing = max(each.finished for each in last.buckets) - min(each.started for each in last.buckets)
        return last.finished - last.computed, reducing
