"""Steps in the Trace Event Format, which chrome://tracing and ui.perfetto.dev show.

Times are microseconds of this machine's monotonic clock, so that the traces of ranks of one machine fit together: their
``traceEvents`` may be put into one list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ucxring.ddp.watch.timings import Bucket, Step

COMPUTE, WAITING, REDUCTION = "compute", "waiting", "reduction"


class Span(NamedTuple):
    """Something that took from `start` to `end` seconds. `lane` numbers what goes on at once within a kind."""

    kind: str
    name: str
    lane: int
    start: float
    end: float
    bytes: int = 0


def spans(step: Step) -> list[Span]:
    """What happened in a step on its rank, by kind and start."""
    result = []
    if step.forward > step.first_forward:
        result.append(Span(COMPUTE, _earlier(step.micro_batches - 1), 0, step.first_forward, step.forward))
    result.append(Span(COMPUTE, "forward", 0, step.forward, step.backward))
    result.append(Span(COMPUTE, "backward", 0, step.backward, step.computed))
    ranks_done = step.computed + step.waiting
    if step.waiting > 0:
        result.append(Span(WAITING, "waiting for slower ranks", 0, step.computed, ranks_done))
    result.append(Span(WAITING, "exposed communication", 0, ranks_done, step.finished))
    for index, (lane, bucket) in enumerate(lanes(step.buckets)):
        result.append(Span(REDUCTION, f"bucket {index}", lane, bucket.started, bucket.finished, bucket.bytes))
    return result


def _earlier(micro_batches: int) -> str:
    """What came before the last forward."""
    plural = "" if micro_batches == 1 else "es"
    return f"{micro_batches} micro-batch{plural}" if micro_batches else "earlier forwards"


def lanes(buckets: Iterable[Bucket]) -> list[tuple[int, Bucket]]:
    """Gives each bucket, in the order given, the first lane that is free when it starts."""
    ends: list[float] = []
    result = []
    for bucket in buckets:
        lane = next((number for number, end in enumerate(ends) if end <= bucket.started), len(ends))
        ends[lane : lane + 1] = [bucket.finished]
        result.append((lane, bucket))
    return result


def events(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """The events of some steps of one rank: a process per rank, a thread per row."""
    rows: dict[tuple[str, int], int] = {(COMPUTE, 0): 0, (WAITING, 0): 1}
    result: list[dict[str, Any]] = []
    rank = 0
    for step in steps:
        rank = step.rank
        for span in spans(step):
            row = rows.setdefault((span.kind, span.lane), len(rows))
            arguments = {"step": step.number} | ({"bytes": span.bytes} if span.bytes else {})
            result.append(
                {"name": span.name, "cat": span.kind, "ph": "X", "ts": 1e6 * span.start}
                | {"dur": 1e6 * (span.end - span.start), "pid": rank, "tid": row, "args": arguments}
            )
    names = [{"name": "process_name", "ph": "M", "pid": rank, "tid": 0, "args": {"name": f"rank {rank}"}}]
    for (kind, lane), row in rows.items():
        name = f"{kind} {lane}" if kind == REDUCTION else kind
        names.append({"name": "thread_name", "ph": "M", "pid": rank, "tid": row, "args": {"name": name}})
    return names + result


def write(path: str | Path, steps: Iterable[Step]) -> None:
    """Writes the trace file."""
    Path(path).write_text(json.dumps({"traceEvents": events(steps), "displayTimeUnit": "ms"}))
