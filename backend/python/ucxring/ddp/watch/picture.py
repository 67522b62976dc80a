"""The timeline of one step as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ucxring.ddp.watch.timings import Step
from ucxring.ddp.watch.trace import REDUCTION, WAITING, spans

_COLOURS = {
    "forward": "#4c78a8",
    "backward": "#72b7b2",
    "waiting for slower ranks": "#bab0ac",
    "exposed communication": "#e45756",
    REDUCTION: "#f2a541",
}
_OTHER = "#9ecae9"  # earlier micro-batches


def draw(path: str | Path, steps: Sequence[Step], number: int | None) -> None:
    """Draws step `number`, the latest one for None. Raises ValueError when it is not among `steps`."""
    chosen = [step for step in steps if number is None or step.number == number]
    if not chosen:
        kept = f"{steps[0].number} … {steps[-1].number}" if steps else "none"
        raise ValueError(f"step {'of any number' if number is None else number} has not been recorded; kept are {kept}")
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ImportError("a picture needs Matplotlib: pip install 'ucxring[demo]'") from error
    step = chosen[-1]
    rows: dict[tuple[str, int], int] = {}
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    axes = figure.subplots()
    seen: set[str] = set()
    for span in spans(step):
        row = rows.setdefault((span.kind, span.lane), len(rows))
        what = REDUCTION if span.kind == REDUCTION else span.name
        label = None if what in seen else what
        seen.add(what)
        left, width = 1e3 * (span.start - step.first_forward), 1e3 * (span.end - span.start)
        axes.barh(row, width, left=left, height=0.7, label=label, color=_COLOURS.get(what, _OTHER), edgecolor="white")
    axes.set_yticks(list(rows.values()), [_row_name(kind, lane) for kind, lane in rows])
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds since the step's first forward began")
    axes.set_title(f"step {step.number} on rank {step.rank}: {step.bytes / 1e6:.2f} MB in {len(step.buckets)} buckets")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=120)


def _row_name(kind: str, lane: int) -> str:
    if kind == WAITING:
        return "after backward"
    return f"reductions {lane + 1}" if kind == REDUCTION else "this rank"
