"""From rounds to medians, tables and a record in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from rich.table import Table

from ucxring.bench.overlap.plan import Plan

Rounds = Sequence[Sequence[Mapping[str, float]]]  # [round][system]: a `worker.Sample`
Row = dict[str, float]
SHARE = "share"  # step over compute and communication one after the other
_BY_ROUND = ("compute", "communication", "step", "with_optimizer")
_BY_MEDIAN = ("exposed", "after_last_gradient")
COLUMNS = ("compute", "communication", "step", SHARE, *_BY_MEDIAN, "own_exposed", "own_reducing", "with_optimizer")


def row(samples: Sequence[Mapping[str, float]]) -> Row:
    """The medians of one system, in seconds, and what its step takes of compute and communication together."""
    found = {name: median(each[name] for each in samples) for name in samples[0]}
    found["exposed"] = median(each["step"] - each["compute"] for each in samples)
    found[SHARE] = found["step"] / (found["compute"] + found["communication"])
    return found


def rows(plan: Plan, rounds: Rounds) -> dict[str, Row]:
    """One for each system, by its name."""
    return {name: row([each[index] for each in rounds]) for index, name in enumerate(plan.systems)}


def ratios(plan: Plan, rounds: Rounds, found: Mapping[str, Row]) -> dict[str, Row]:
    """Each other system over the first: medians of the rounds' ratios; of what may be 0, ratios of the medians."""
    first, result = found[plan.systems[0]], {}
    for index, name in enumerate(plan.systems[1:], start=1):
        over = {column: median(each[index][column] / each[0][column] for each in rounds) for column in _BY_ROUND}
        over |= {column: found[name][column] / first[column] for column in _BY_MEDIAN if first[column] > 0}
        result[name] = over
    return result


def record(plan: Plan, conditions: dict[str, object], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Everything, for JSON. `answer` is that of rank 0."""
    found = rows(plan, answer["rounds"])
    return {
        "plan": asdict(plan),
        "conditions": conditions,
        "batch": answer["batch"],
        "gradient_bytes": answer["gradient_bytes"],
        "differences": dict(zip(plan.systems, answer["differences"], strict=True)),
        "overlap": found,
        "ratios": ratios(plan, answer["rounds"], found),
        "rounds": answer["rounds"],
    }


def tables(found: Mapping[str, Any]) -> list[Table]:
    """Milliseconds of all systems, and the others over the first."""
    title = f"{found['gradient_bytes'] / 1e6:.0f} MB of gradients, batch {found['batch']} per rank"
    times = Table(title=f"{title}: milliseconds, medians of {found['plan']['rounds']} rounds")
    over = Table(title=f"over {next(iter(found['overlap']))}")
    for table, columns in ((times, COLUMNS), (over, (*_BY_ROUND, *_BY_MEDIAN))):
        for heading in ("system", *columns):
            table.add_column(heading.replace("_", " "))
    for name, each in found["overlap"].items():
        times.add_row(name, *(_cell(column, each[column]) for column in COLUMNS))
    for name, each in found["ratios"].items():
        over.add_row(name, *(f"{each[column]:.3f}" if column in each else "" for column in (*_BY_ROUND, *_BY_MEDIAN)))
    return [times, over] if found["ratios"] else [times]


def _cell(column: str, value: float) -> str:
    if column == SHARE:
        return f"{value:.2f}"
    return f"{1000 * value:.1f}" if value else ""


def markdown(found: Mapping[str, Any]) -> list[str]:
    """The lines of a table for the documentation."""
    heads = ["system", "compute", "communication", "step", "step ÷ sum", "exposed"]
    others = ["communication", "step", "exposed"]
    heads += [f"{name} ÷ first" for name in others]
    lines = [heads, ["---"] * len(heads)]
    for name, each in found["overlap"].items():
        times = [_cell(column, each[column]) for column in ("compute", "communication", "step", SHARE, "exposed")]
        over = found["ratios"].get(name, {})
        lines.append([name, *times, *(f"{over[column]:.3f}" if column in over else "–" for column in others)])
    return [f"| {' | '.join(line)} |" for line in lines]
