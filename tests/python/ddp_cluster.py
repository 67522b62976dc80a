"""Ranks of a training that are only simulated: what the core would measure, and a watch for each."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ucxring.ddp.watch import Limits, Watch


@dataclass
class Bucket:
    bytes: int
    started: float
    finished: float


@dataclass
class Timing:
    step: int
    forward: float
    backward: float
    computed: float
    finished: float
    buckets: list[Bucket] = field(default_factory=list)
    ranks: list[tuple[float, int, int]] = field(default_factory=list)


class Cluster:
    """Ranks of a training, each with its watch and its replica, under a clock of their own."""

    def __init__(self, world_size: int = 2, module: nn.Module | None = None, **limits: Any) -> None:
        self.now = 0.0
        self.step_number = 0
        self.messages: list[list[str]] = [[] for _ in range(world_size)]
        model = module or nn.Linear(4, 4)
        self.modules = [copy.deepcopy(model) for _ in range(world_size)]
        self.watches = [
            Watch(
                each, rank, world_size, limits=Limits(**limits), clock=lambda: self.now, warn=self.messages[rank].append
            )
            for rank, each in enumerate(self.modules)
        ]

    def step(
        self,
        work: Sequence[float] | float = 0.1,
        communication: float = 0.001,
        batches: Callable[[int, int], torch.Tensor] | None = None,
        micro_batches: int = 1,
    ) -> None:
        """One step: `work` seconds of each rank, then `communication` seconds that are not hidden."""
        own = [work] * len(self.watches) if isinstance(work, float) else list(work)
        batch = batches or (lambda rank, step: torch.full((3,), float(100 * step + rank)))
        begin = self.now
        hashes = []
        for rank, watch in enumerate(self.watches):
            for _ in range(micro_batches - 1):
                watch.forward_begins((torch.zeros(1),), {}, False)
            hashes.append(watch.forward_begins((batch(rank, self.step_number),), {}, True))
        end = begin + max(own) + communication
        table = [(seconds, *each) for seconds, each in zip(own, hashes, strict=True)]
        for rank, watch in enumerate(self.watches):
            computed = begin + own[rank]
            buckets = [Bucket(1000, computed - 0.01, end)]
            timing = Timing(self.step_number, begin, begin + own[rank] / 3, computed, end, buckets, table)
            watch.steps_finished([timing])
        self.now = end
        self.step_number += 1

    def warned(self, *texts: str) -> None:
        """Rank 0 warned once, with these texts, and nobody else."""
        assert [len(each) for each in self.messages] == [1] + [0] * (len(self.messages) - 1), self.messages
        for text in texts:
            assert text in self.messages[0][0]

    def silent(self) -> None:
        assert not any(self.messages), self.messages


def norms() -> nn.Module:
    return nn.Sequential(nn.Conv1d(2, 2, 1), nn.BatchNorm1d(2), nn.SyncBatchNorm(2), nn.InstanceNorm1d(2))


def recorded() -> Watch:
    """Twelve steps of rank 1: two micro-batches, two buckets that overlap, 2 ms after the last gradient."""
    watch = Watch(nn.Linear(2, 2), 1, 4, limits=Limits(history=10), link_bytes_per_second=1e9, clock=lambda: start)
    for step in range(12):
        start = 0.1 * step
        watch.forward_begins((torch.ones(1),), {}, False)
        watch.forward_begins((torch.ones(1),), {}, True)
        times = [start + ms / 1000 for ms in (20, 30, 50, 52)]
        buckets = [Bucket(1000, start + 0.040, start + 0.048), Bucket(3000, start + 0.044, start + 0.052)]
        watch.steps_finished([Timing(step, *times, buckets, [(0.098, 0, 0)] * 4)])
    return watch
