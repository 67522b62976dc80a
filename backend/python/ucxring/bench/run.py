"""Runs a benchmark: starts the ranks, here or in namespaces, and reports."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ucxring import console as console_output
from ucxring import launch
from ucxring.bench import load, machine, namespaces, perf_stat, pictures, report, systems
from ucxring.bench.plan import Plan

SKIPPED = 77  # exit code that ctest knows as "skipped"


@dataclass(frozen=True)
class Conditions:
    """Under which circumstances to measure."""

    json_file: Path | None = None
    picture: Path | None = None  # without suffix
    load: bool = False
    namespaces: bool = False
    rate: str | None = None
    timeout: float = 900.0  # seconds


@contextlib.contextmanager
def job(arguments: Sequence[str], ranks: int, conditions: Conditions) -> Iterator[launch.Job]:
    """The ranks to start, on this host or each on a host of its own that goes away afterwards."""
    if not conditions.namespaces:
        environment = {"GLOO_SOCKET_IFNAME": "lo"}
        yield launch.Job(arguments, ranks, environment, timeout=conditions.timeout)
        return
    with namespaces.Network(ranks, conditions.rate) as network:
        environment = {"GLOO_SOCKET_IFNAME": namespaces.INTERFACE}
        prefixes = namespaces.prefixes(network)
        yield launch.Job(arguments, ranks, environment, prefixes, network.address(0), conditions.timeout)


def impossible(plan: Plan, conditions: Conditions) -> str | None:
    """Why the run cannot be done here; None when it can."""
    if conditions.namespaces and (reason := namespaces.unavailable()):
        return reason
    return systems.unavailable(plan) or (perf_stat.unavailable() if plan.perf else None)


class ImpossibleError(RuntimeError):
    """The machine, or this build, does not permit what was asked."""


def measure(plan: Plan, conditions: Conditions) -> tuple[Sequence[report.Row], list[dict[str, dict[str, float]]]]:
    """Runs the plan on its ranks; the rows of the table, and what each rank counted with `perf stat`.

    Raises `ImpossibleError`, and `launch.RankFailedError` when a rank fails.
    """
    if reason := impossible(plan, conditions):
        raise ImpossibleError(reason)
    with tempfile.TemporaryDirectory() as name, launch.terminate_as_exception():
        arguments = ["-m", "ucxring.bench.worker", plan.to_text(), name]
        with load.on_every_core(conditions.load), job(arguments, plan.ranks, conditions) as started:
            launch.run(started)
        answers = [json.loads((Path(name) / f"rank{rank}.json").read_text()) for rank in range(plan.ranks)]
    link = namespaces.bits_per_second(conditions.rate) / 8 if conditions.rate else None
    found = report.rows(plan, [answer["samples"] for answer in answers], link)
    return found, [answer["events"] for answer in answers]


def run(plan: Plan, conditions: Conditions) -> int:
    """Measures and reports; the exit code."""
    console = console_output.make()
    about = machine.describe()
    try:
        found, events = measure(plan, conditions)
    except ImpossibleError as reason:
        console.print(f"skipped: {reason}", markup=False)
        return SKIPPED
    console.print(report.table(plan, found))
    if plan.perf:
        console.print(report.events_table(events))
    about |= {"busy_loops": conditions.load, "namespaces": conditions.namespaces, "rate": conditions.rate}
    record = report.record(plan, found, about, events)
    if conditions.json_file:
        conditions.json_file.write_text(json.dumps(record, indent=1))
    if conditions.picture:
        for file in pictures.draw(record, conditions.picture):
            console.print(f"picture: {file}", markup=False)
    return 0
