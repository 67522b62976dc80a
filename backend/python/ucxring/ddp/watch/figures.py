"""How fast the ranks are, compared."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from ucxring.ddp.watch.limits import Limits
from ucxring.ddp.watch.timings import Step


class RankFigures(NamedTuple):
    """How long a rank's own work takes per step, and the median of the others': both in seconds."""

    rank: int
    seconds: float
    others: float

    @property
    def ratio(self) -> float:
        """Own work over that of the others."""
        return self.seconds / self.others if self.others > 0 else 1.0


def rank_figures(steps: Iterable[Step]) -> list[RankFigures]:
    """Of every rank over these steps; empty for one rank, or where the ranks' times are not known."""
    own = typical_own(steps)
    if len(own) < 2:
        return []
    ordered = sorted(own)
    return [RankFigures(rank, each, _median_without(ordered, each)) for rank, each in enumerate(own)]


def _median_without(ordered: Sequence[float], value: float) -> float:
    """The median of all but one `value`, without sorting anew for each of many ranks."""
    place = bisect_left(ordered, value)
    left = [at + (at >= place) for at in ((len(ordered) - 2) // 2, (len(ordered) - 1) // 2)]
    return (ordered[left[0]] + ordered[left[1]]) / 2


def typical_own(steps: Iterable[Step]) -> list[float]:
    """Per rank, the median of its own work's seconds: one slow step, such as an evaluation, does not count."""
    tables = [[own for own, _, _ in step.ranks] for step in steps if step.ranks]
    return [median(column) for column in zip(*tables, strict=True)]


def is_straggler(figures: RankFigures, limits: Limits) -> bool:
    """Whether the others wait for this rank, and long enough to matter."""
    return figures.ratio > limits.straggler and figures.seconds - figures.others > limits.least_lag
