"""The report: what a step consists of, what the link delivers, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ucxring.ddp.watch import messages
from ucxring.ddp.watch.figures import RankFigures, is_straggler, rank_figures
from ucxring.ddp.watch.limits import Limits
from ucxring.ddp.watch.timings import Step

_WELL_USED = 0.5  # of the link's bandwidth
_WELL_HIDDEN = 0.05  # of a step
_SMALL_BUCKET = 8 << 20  # bytes


@dataclass(frozen=True)
class Report:
    """Means per synchronised step of one rank. Seconds, bytes and bytes per second.

    `algorithm_bandwidth` is bytes of gradients over the time in which a reduction was under way; `bus_bandwidth` is
    that times 2 (p - 1) / p, what each of p ranks has to send at least, comparable with `link_bandwidth` (None: not
    known). Waiting for slower ranks is in the time of a reduction, so these are what the training got, not what the
    network could do.
    """

    rank: int
    world_size: int
    steps: int
    micro_batches: float
    seconds: float
    compute: float  # forward and backward of all micro-batches
    between: float  # data, optimizer, and whatever else lies between two steps
    exposed: float  # after this rank's last gradient, `waiting` left out
    waiting: float  # for ranks that still computed
    hidden: float  # reductions that ran while this rank computed
    bytes: float
    buckets: float
    algorithm_bandwidth: float
    bus_bandwidth: float
    link_bandwidth: float | None
    ranks: tuple[RankFigures, ...]
    advice: tuple[str, ...]

    def rows(self) -> list[tuple[str, str]]:
        """The figures as pairs of texts."""
        link = "" if self.link_bandwidth is None else f" of {_rate(self.link_bandwidth)} of the link"
        return [
            ("steps", f"{self.steps}, of {self.micro_batches:.3g} micro-batches each"),
            ("step", _milliseconds(self.seconds)),
            ("  forward and backward", self._part(self.compute)),
            ("  between steps (data, optimizer)", self._part(self.between)),
            ("  waiting for slower ranks", self._part(self.waiting)),
            ("  exposed communication", self._part(self.exposed)),
            ("hidden communication", _milliseconds(self.hidden)),
            ("gradients", f"{self.bytes / 1e6:.2f} MB in {self.buckets:.3g} buckets"),
            ("algorithm bandwidth", _rate(self.algorithm_bandwidth)),
            ("bus bandwidth", _rate(self.bus_bandwidth) + link),
        ]

    def rank_rows(self) -> list[tuple[str, str, str]]:
        """Rank, own work per step, and that over the median of the others."""
        return [(str(each.rank), _milliseconds(each.seconds), f"{each.ratio:.2f}") for each in self.ranks]

    def title(self) -> str:
        """The first line."""
        return f"ucxring DDP, rank {self.rank} of {self.world_size}: means per step"

    def _part(self, seconds: float) -> str:
        share = seconds / self.seconds if self.seconds > 0 else 0.0
        return f"{_milliseconds(seconds)}  {share:4.0%}"

    def __str__(self) -> str:
        lines = [self.title(), *(f"{name:<34}{value}" for name, value in self.rows())]
        if self.ranks:
            lines.append("rank    own work per step    over the others")
            lines += [f"{rank:<8}{seconds:<21}{ratio}" for rank, seconds, ratio in self.rank_rows()]
        return "\n".join([*lines, *(f"- {line}" for line in self.advice)])

    def print(self) -> None:
        """Prints the report, as tables where rich is installed."""
        try:
            from rich.table import Table

            from ucxring import console
        except ModuleNotFoundError:
            print(self)
            return
        figures = Table("", "", title=self.title(), show_header=False)
        for row in self.rows():
            figures.add_row(*row)
        output = console.make()
        output.print(figures)
        if self.ranks:
            table = Table("rank", "own work per step", "over the others")
            for ranked in self.rank_rows():
                table.add_row(*ranked)
            output.print(table)
        for line in self.advice:
            output.print(f"- {line}", markup=False)


def make_report(
    steps: Sequence[Step], rank: int, world_size: int, link: float | None, limits: Limits, warnings: Sequence[str] = ()
) -> Report:
    """The report of `steps`, which may be empty. `warnings` are repeated as advice."""
    busy, total = sum(step.busy for step in steps), sum(step.bytes for step in steps)
    bandwidth = total / busy if busy > 0 else 0.0
    waiting = _mean(step.waiting for step in steps)
    report = Report(
        rank=rank,
        world_size=world_size,
        steps=len(steps),
        micro_batches=_mean(step.micro_batches for step in steps),
        seconds=_mean(step.seconds for step in steps),
        compute=_mean(step.compute for step in steps),
        between=_mean(step.between for step in steps),
        exposed=max(0.0, _mean(step.exposed for step in steps) - waiting),
        waiting=waiting,
        hidden=_mean(step.hidden for step in steps),
        bytes=_mean(step.bytes for step in steps),
        buckets=_mean(len(step.buckets) for step in steps),
        algorithm_bandwidth=bandwidth,
        bus_bandwidth=bandwidth * 2 * (world_size - 1) / world_size,
        link_bandwidth=link,
        ranks=tuple(rank_figures(steps)),
        advice=tuple(warnings),
    )
    own = advice(report, limits) if steps and world_size > 1 else []
    return replace(report, advice=(*warnings, *own))


def advice(report: Report, limits: Limits) -> list[str]:
    """What the figures suggest, a sentence or two each."""
    lines = []
    hidden = report.exposed < _WELL_HIDDEN * report.seconds
    slow = [each for each in report.ranks if is_straggler(each, limits)]
    if slow:
        lines.append(messages.straggler(slow))
    if report.exposed > limits.exposed * report.seconds:
        micro_batches = max(1, round(report.micro_batches))
        lines.append(messages.communication(report.seconds, report.exposed, micro_batches, limits.exposed))
    elif hidden:
        lines.append("communication is hidden behind backward: a faster network or smaller gradients gain nothing.")
    small = report.bytes < _SMALL_BUCKET * report.buckets
    if report.link_bandwidth and report.bus_bandwidth < _WELL_USED * report.link_bandwidth and small and not hidden:
        share = report.bus_bandwidth / report.link_bandwidth
        lines.append(f"the link is used at {share:.0%}: fewer and larger buckets (bucket_cap_mb) may use it better.")
    return lines


def _mean(values: Iterable[float]) -> float:
    """The mean; 0 of nothing."""
    known = list(values)
    return fmean(known) if known else 0.0


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"


def _rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e9:.3f} GB/s"
