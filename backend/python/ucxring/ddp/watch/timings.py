"""What the core measures of a step, and what follows from it. Times are seconds on `time.perf_counter`'s clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class BucketTiming(Protocol):
    """One bucket's reduction."""

    @property
    def bytes(self) -> int:
        """Bytes of gradients."""

    @property
    def started(self) -> float:
        """When its reduction was started."""

    @property
    def finished(self) -> float:
        """When it was seen to be done."""


class StepTiming(Protocol):
    """One synchronised step on this rank, as the core measures it."""

    @property
    def step(self) -> int:
        """Its number, the same on all ranks; they follow each other."""

    @property
    def forward(self) -> float:
        """When its last forward began."""

    @property
    def backward(self) -> float:
        """When backward reached the outputs."""

    @property
    def computed(self) -> float:
        """When this rank's last gradient was there."""

    @property
    def finished(self) -> float:
        """When all averages were in the gradients."""

    @property
    def buckets(self) -> Sequence[BucketTiming]:
        """In the order of their start."""

    @property
    def ranks(self) -> Sequence[tuple[float, int, int]]:
        """Per rank: seconds of its own work from the end of the previous step to `computed`, batch and parameter hash.

        A hash of 0 was not given. Empty where they could not be sent along.
        """


class Bucket(NamedTuple):
    """A kept `BucketTiming`."""

    bytes: int
    started: float
    finished: float


@dataclass(frozen=True)
class Step:
    """A kept `StepTiming` with what the Python side adds: `first_forward`, of all micro-batches, and their number."""

    number: int
    first_forward: float
    forward: float
    backward: float
    computed: float
    finished: float
    buckets: tuple[Bucket, ...]
    ranks: tuple[tuple[float, int, int], ...]
    rank: int
    micro_batches: int
    own: float  # seconds of this rank's own work: since the end of the previous step where that is known

    @property
    def seconds(self) -> float:
        """The whole step: own work and what followed it."""
        return self.own + self.exposed

    @property
    def compute(self) -> float:
        """Seconds of forward and backward of all micro-batches."""
        return self.computed - self.first_forward

    @property
    def between(self) -> float:
        """Seconds of own work outside of forward and backward: data, optimizer, evaluation."""
        return self.own - self.compute

    @property
    def exposed(self) -> float:
        """Seconds after this rank's last gradient until all averages were there."""
        return self.finished - self.computed

    @property
    def waiting(self) -> float:
        """The part of `exposed` in which slower ranks still computed. Ranks end a step at nearly the same time."""
        if not self.ranks:
            return 0.0
        return min(self.exposed, max(own for own, _, _ in self.ranks) - self.ranks[self.rank][0])

    @property
    def busy(self) -> float:
        """Seconds in which at least one bucket was under way: overlapping reductions count once."""
        total, end = 0.0, float("-inf")
        for bucket in sorted(self.buckets, key=lambda each: each.started):
            total += max(0.0, bucket.finished - max(end, bucket.started))
            end = max(end, bucket.finished)
        return total

    @property
    def hidden(self) -> float:
        """Seconds of reductions that ran while this rank still computed."""
        return max(0.0, self.busy - self.exposed)

    @property
    def bytes(self) -> int:
        """Bytes of gradients in all buckets."""
        return sum(bucket.bytes for bucket in self.buckets)


def make_step(
    timing: StepTiming, rank: int, first_forward: float | None, micro_batches: int, previous: Step | None
) -> Step:
    """Keeps a copy of `timing`. `first_forward` None: unknown, the last forward's time is taken."""
    ranks = tuple((float(own), int(batch), int(parameters)) for own, batch, parameters in timing.ranks)
    first = timing.forward if first_forward is None else min(first_forward, timing.forward)
    follows = previous is not None and previous.number + 1 == timing.step
    begin = min(previous.finished, first) if follows and previous is not None else first
    return Step(
        number=timing.step,
        first_forward=first,
        forward=timing.forward,
        backward=timing.backward,
        computed=timing.computed,
        finished=timing.finished,
        buckets=tuple(Bucket(each.bytes, each.started, each.finished) for each in timing.buckets),
        ranks=ranks,
        rank=rank,
        micro_batches=micro_batches,
        own=timing.computed - begin,
    )
