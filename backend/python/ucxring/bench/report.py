"""From samples to medians, a table and a record in JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from ucxring.bench.plan import Plan, bus_factor, reduces, show_size

Samples = Sequence[dict[str, Any]]
CPU_COST_FROM = 64 << 10  # bytes; below, a gigabyte is too many calls to speak of


@dataclass(frozen=True)
class Row:
    """One system at one size. Times are per call, of the slowest rank; bandwidths in bytes per second."""

    size: int
    backend: str
    median_seconds: float
    least_seconds: float
    algbw: float
    busbw: float
    cpu_seconds_per_gb: float | None  # of all ranks together, per 1e9 bytes of the vector
    line_share: float | None  # busbw as a share of the rate of the link


def rows(plan: Plan, ranks: Sequence[Samples], link_bytes: float | None) -> list[Row]:
    """One row per size and backend. `ranks[r]` are the samples of rank r, in the same order on every rank."""
    together = list(zip(*ranks, strict=True))
    found = []
    for size in dict.fromkeys(each[0]["size"] for each in together):
        for backend in plan.systems:
            chosen = [each for each in together if each[0]["size"] == size and each[0]["backend"] == backend]
            found.append(_row(plan, size, backend, chosen, link_bytes))
    return found


def _row(
    plan: Plan, size: int, backend: str, trials: Sequence[Sequence[dict[str, Any]]], link_bytes: float | None
) -> Row:
    times = [max(sample["seconds"] / sample["iterations"] for sample in trial) for trial in trials]
    median = statistics.median(times)
    moved = sum(trial[0]["iterations"] for trial in trials) * size / 1e9
    cpu = sum(sample["cpu_seconds"] for trial in trials for sample in trial)
    busbw = size / median * bus_factor(plan.collective, plan.ranks)
    return Row(
        size=size,
        backend=backend,
        median_seconds=median,
        least_seconds=min(times),
        algbw=size / median,
        busbw=busbw,
        cpu_seconds_per_gb=cpu / moved if size >= CPU_COST_FROM else None,
        line_share=busbw / link_bytes if link_bytes else None,
    )


def ratios(plan: Plan, found: Sequence[Row]) -> dict[int, dict[str, float]]:
    """For each size and each other system: its median time divided by the first backend's."""
    medians = {(row.size, row.backend): row.median_seconds for row in found}
    sizes = dict.fromkeys(row.size for row in found)
    first, *others = plan.systems
    return {size: {other: medians[size, other] / medians[size, first] for other in others} for size in sizes}


def record(
    plan: Plan, found: Sequence[Row], conditions: dict[str, object], events: Sequence[dict[str, dict[str, float]]]
) -> dict[str, object]:
    """Everything, for JSON."""
    return {
        "plan": asdict(plan),
        "conditions": conditions,
        "rows": [asdict(row) for row in found],
        "ratios": {str(size): each for size, each in ratios(plan, found).items()},
        "perf_events_per_gb": total_events(events),
    }


def total_events(ranks: Sequence[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Events of all ranks together, for each backend."""
    totals: dict[str, dict[str, float]] = {}
    for rank in ranks:
        for backend, counts in rank.items():
            into = totals.setdefault(backend, {})
            for event, value in counts.items():
                into[event] = into.get(event, 0.0) + value
    return totals


def show_time(seconds: float) -> str:
    """Three digits in µs, ms or s."""
    for unit, name in ((1e-6, "µs"), (1e-3, "ms")):
        if seconds < 999.5 * unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.3g} s"


def title(plan: Plan) -> str:
    """The collective, what it works on and who."""
    what = f"{plan.collective} {plan.op}" if reduces(plan.collective) else plan.collective
    kept = [word for word, wanted in (("registered", plan.registered), ("bound to cores", plan.bind)) if wanted]
    return ", ".join([what, plan.dtype, f"{plan.ranks} ranks", *kept])


def show_ratio(ratio: float) -> str:
    """Two digits after the point, or two that say something."""
    return f"{ratio:.2f} ×" if ratio >= 0.1 else f"{ratio:.2g} ×"


def table(plan: Plan, found: Sequence[Row]) -> Table:
    """One line per size; for each system its figures, and how much faster than the others the first is.

    With more than two systems only the median and the bandwidth of each, so that a line stays readable.
    """
    made = Table(title=f"{title(plan)}, median of {plan.trials} trials")
    made.add_column("size", justify="right")
    limited = any(row.line_share is not None for row in found)
    brief = len(plan.systems) > 2
    for system in plan.systems:
        headings = {"least": not brief, "GB/s bus": True, "of line": limited, "CPU s/GB": not brief}
        for heading in (system, *(heading for heading, wanted in headings.items() if wanted)):
            made.add_column(heading, justify="right")
    for other in plan.systems[1:]:
        made.add_column(f"{other} ÷ {plan.systems[0]}", justify="right")
    for size, others in ratios(plan, found).items():
        cells = [show_size(size)]
        for row in (row for row in found if row.size == size):
            cells += _cells(row, limited, brief)
        made.add_row(*cells, *map(show_ratio, others.values()))
    return made


def _cells(row: Row, limited: bool, brief: bool) -> list[str]:
    cells = [show_time(row.median_seconds)]
    if not brief:
        cells.append(show_time(row.least_seconds))
    cells.append(f"{row.busbw / 1e9:.3g}")
    if limited:
        cells.append("–" if row.line_share is None else f"{row.line_share:.1%}")
    if not brief:
        cells.append("–" if row.cpu_seconds_per_gb is None else f"{row.cpu_seconds_per_gb:.2f}")
    return cells


def events_table(events: Sequence[dict[str, dict[str, float]]]) -> Table:
    """What `perf stat` counted per gigabyte, all ranks together."""
    totals = total_events(events)
    made = Table(title="perf stat, all ranks, per GB of the vector at the largest size")
    made.add_column("event")
    for backend in totals:
        made.add_column(backend, justify="right")
    for event in dict.fromkeys(event for counts in totals.values() for event in counts):
        name = f"{event}, ms" if event == "task-clock" else event
        made.add_row(name, *(f"{counts.get(event, float('nan')):,.0f}" for counts in totals.values()))
    return made
