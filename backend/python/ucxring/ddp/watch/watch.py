"""The watchful eye: sees every step of one rank and warns, reports and draws."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ucxring.ddp.sync_batch_norm import SyncBatchNorm
from ucxring.ddp.watch import checks, hashes, messages, picture, trace
from ucxring.ddp.watch.drift import ParameterHashes
from ucxring.ddp.watch.limits import Limits
from ucxring.ddp.watch.report import Report, make_report
from ucxring.ddp.watch.timings import Step, StepTiming, make_step
from ucxring.ddp.watch.warner import Warner, warn


def is_sync_batch_norm(module: nn.Module) -> bool:
    """Whether a BatchNorm module is a synchronised one, of torch or of ucxring."""
    return isinstance(module, (nn.SyncBatchNorm, SyncBatchNorm))


class History:
    """The steps seen so far, without the model: what a report at exit needs."""

    def __init__(self, rank: int, world_size: int, limits: Limits, link: float | None, warner: Warner) -> None:
        self.rank, self.world_size, self.limits, self.warner = rank, world_size, limits, warner
        self.link_bytes_per_second = link
        self.steps: deque[Step] = deque(maxlen=limits.history)
        self.count = 0

    def add(self, step: Step) -> None:
        """Keeps a step; the oldest goes when there are too many."""
        self.steps.append(step)
        self.count += 1

    def steady(self) -> list[Step]:
        """The kept steps without those of the warm-up, if there are others."""
        first_kept = self.count - len(self.steps)
        return list(self.steps)[max(0, self.limits.warm_up - first_kept) :] or list(self.steps)

    def report(self) -> Report:
        """The figures of the kept steps, with the warnings that no figure there says again."""
        warnings = self.warner.given(("batch norm", checks.SameBatch.kind, checks.Drift.kind, "no backward"))
        return make_report(self.steady(), self.rank, self.world_size, self.link_bytes_per_second, self.limits, warnings)

    def print_report(self) -> None:
        """Prints the report, if there was a step."""
        if self.steps:
            self.report().print()


class Watch:
    """Watches one rank of a wrapped module.

    The wrapper calls `steps_finished` and then `forward_begins` at the beginning of each forward. Rank 0 warns of what
    concerns all ranks, each rank of what it does itself; each kind once. With `world_size` 1 nothing is hashed.

    `ignored` are names of parameters that may differ between ranks, `link_bytes_per_second` what the link can carry
    (None: unknown). `warn` gets the messages.
    `expects_equal_parameters` may be set to False for methods that let replicas differ for a while, as local SGD does;
    on all ranks.
    """

    def __init__(
        self,
        module: nn.Module,
        rank: int,
        world_size: int,
        *,
        limits: Limits | None = None,
        ignored: Collection[str] = (),
        is_synchronised: Callable[[nn.Module], bool] = is_sync_batch_norm,
        link_bytes_per_second: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
        warn: Callable[[str], None] = warn,
    ) -> None:
        self.limits = limits or Limits()
        self.expects_equal_parameters = world_size > 1 and self.limits.parameter_steps > 0
        self._module, self._clock = module, clock
        self._warner = Warner(warn)
        self.history = History(rank, world_size, self.limits, link_bytes_per_second, self._warner)
        named = [(name, tensor) for name, tensor in module.named_parameters() if name not in ignored]
        self._hashes = ParameterHashes(named if self.expects_equal_parameters else [], self.limits.parameter_steps or 1)
        self._checks = self._global_checks() if rank == 0 and world_size > 1 else []
        self._step = 0
        self._first_forward: float | None = None
        self._unsynchronised = 0
        self._without_backward = 0
        if rank == 0 and world_size > 1:
            names = checks.unsynchronised_batch_norms(module, is_synchronised)
            if names:
                self._warner.give("batch norm", messages.batch_norm(names))

    def _global_checks(self) -> list[checks.Check]:
        return [
            checks.SameBatch(self.limits),
            checks.Drift(self._hashes.names),
            checks.Stragglers(self.limits),
            checks.Communication(self.limits),
        ]

    def forward_begins(self, args: Sequence[Any], kwargs: dict[str, Any], synchronised: bool) -> tuple[int, int]:
        """Takes note of a forward; returns the batch hash and the parameter hash to send along, 0 for none.

        `synchronised` is whether its backward will average gradients. Forwards without gradients do not count.
        """
        if not torch.is_grad_enabled():
            return 0, 0
        if self._first_forward is None:
            self._first_forward = self._clock()
        if not synchronised:
            self._unsynchronised += 1
            self._without_backward = 0
            return 0, 0
        self._note_forward()
        if self.history.world_size == 1:
            return 0, 0
        batch = hashes.batch_hash(args, kwargs) if self.history.count < self.limits.batch_steps else 0
        return batch, self._hashes.value(self._step) if self.expects_equal_parameters else 0

    def _note_forward(self) -> None:
        if self._without_backward >= self.limits.forwards:
            self._warner.give("no backward", messages.no_backward(self.history.rank, self._without_backward))
        if self._module.training:
            self._without_backward += 1

    def steps_finished(self, timings: Sequence[StepTiming]) -> None:
        """Takes the timings of the steps since the last call, oldest first; warns when something is wrong."""
        for timing in timings:
            previous = self.history.steps[-1] if self.history.steps else None
            first, micro_batches = self._first_forward, self._unsynchronised + 1
            step = make_step(timing, self.history.rank, first, micro_batches, previous)
            self._first_forward, self._unsynchronised, self._without_backward = None, 0, 0
            self.history.add(step)
            self._step = step.number + 1
            self._check(step)

    def _check(self, step: Step) -> None:
        for check in self._checks:
            warm = self.history.count > self.limits.warm_up or check.kind in ("same batch", "drift")
            if warm and not self._warner.has_given(check.kind):
                message = check(step)
                if message is not None:
                    self._warner.give(check.kind, message)

    def report(self) -> Report:
        """Means over the kept steps, and advice. `print(watch.report())`, or `.print()` for a table."""
        return self.history.report()

    def trace(self, path: str | Path) -> None:
        """Writes the kept steps of this rank as a trace for chrome://tracing or ui.perfetto.dev."""
        trace.write(path, self.history.steps)

    def picture(self, path: str | Path, step: int | None = None) -> None:
        """Draws the timeline of a step, the latest by default, as PNG, SVG or PDF by the name of `path`.

        Raises ValueError when that step is not among the kept ones, ImportError without Matplotlib.
        """
        picture.draw(path, self.history.steps, step)
