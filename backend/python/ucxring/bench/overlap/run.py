"""Runs `ucxring bench overlap`: starts the ranks, here or in namespaces, and reports."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from ucxring import console as console_output
from ucxring import launch
from ucxring.bench import machine, namespaces
from ucxring.bench import run as bench_run
from ucxring.bench.overlap import report
from ucxring.bench.overlap.plan import Plan, parse_system
from ucxring.examples import minilm_model

EXACT, COMPRESSED = 1e-5, 0.1  # how far gradients of two systems may lie apart, without hooks and with them


def impossible(plan: Plan, conditions: bench_run.Conditions) -> str | None:
    """Why the run cannot be done here; None when it can."""
    if conditions.namespaces and (reason := namespaces.unavailable()):
        return reason
    return minilm_model.missing() if plan.model == "minilm" else None


def wrong(plan: Plan, differences: list[float]) -> list[str]:
    """Systems whose gradients differ from the first one's by more than rounding explains."""
    exact = all(parse_system(name).hook == "none" for name in plan.systems)
    allowed = EXACT if exact else COMPRESSED
    return [name for name, found in zip(plan.systems, differences, strict=True) if not found <= allowed]


def run(plan: Plan, conditions: bench_run.Conditions) -> int:
    """Measures and reports; the exit code: 1 when gradients differ. Raises `launch.RankFailedError`."""
    console = console_output.make()
    if reason := impossible(plan, conditions):
        console.print(f"skipped: {reason}", markup=False)
        return bench_run.SKIPPED
    about = machine.describe() | {"namespaces": conditions.namespaces, "rate": conditions.rate}
    with tempfile.TemporaryDirectory() as folder, launch.terminate_as_exception():
        file = Path(folder) / "answer.json"
        arguments = ["-m", "ucxring.bench.overlap.worker", plan.to_text(), str(file)]
        with bench_run.job(arguments, plan.ranks, conditions) as started:
            launch.run(started)
        answer = json.loads(file.read_text())
    found = report.record(plan, about, answer)
    for table in report.tables(found):
        console.print(table)
    if conditions.json_file:
        conditions.json_file.write_text(json.dumps(found, indent=1))
    for name in (failed := wrong(plan, answer["differences"])):
        console.print(f"gradients of {name} differ: {found['differences'][name]:.1e} of their length", markup=False)
    return 1 if failed else 0
