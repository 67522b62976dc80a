"""`ucxring bench targets`: measures what targets.toml asks for and says which figures are reached."""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ucxring import console as console_output
from ucxring.bench import machine, report, run, training
from ucxring.bench.peers import run as peers_run
from ucxring.bench.peers.programs import ProgramError, Task
from ucxring.bench.plan import Plan, geometric, parse_size, parse_sizes
from ucxring.launch import RankFailedError

FILE = Path(__file__).with_name("targets.toml")
OWN = "ucxring"

Record = dict[str, Any]


class UnmeasuredError(RuntimeError):
    """A run could not be made here."""


@dataclass(frozen=True)
class Verdict:
    """One row: what was wanted of which run, and what was found. `found` None: not measured, and `why`."""

    run: str
    size: str
    wanted: str
    found: float | None
    reached: bool
    why: str = ""


def load(file: Path = FILE) -> dict[str, list[Record]]:
    """The lists of runs and targets."""
    with file.open("rb") as opened:
        return tomllib.load(opened)


@contextlib.contextmanager
def limited(cores: int | None) -> Iterator[None]:
    """Lets this process, and what it starts meanwhile, use only so many cores. Raises `UnmeasuredError` if fewer."""
    allowed = os.sched_getaffinity(0)
    if cores is not None and cores > len(allowed):
        raise UnmeasuredError(f"needs {cores} cores")
    try:
        os.sched_setaffinity(0, sorted(allowed)[:cores])
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def measure_run(asked: Record) -> Record:
    """One run of backends; its record."""
    words = {name: value for name, value in asked.items() if name not in ("name", "cores", "sizes")}
    plan = Plan(sizes=parse_sizes(asked["sizes"]), **words)
    with limited(asked.get("cores")):
        about = machine.describe()
        found, events = run.measure(plan, run.Conditions())
    return report.record(plan, found, about, events)


def measure_peers(asked: Record, conditions: peers_run.Conditions, console: Console) -> Record:
    """One comparison with the MPI libraries; its record. All of them must have been measured."""
    first, last, factor = geometric(parse_sizes(asked["sizes"]))
    done = peers_run.measure(Task(asked["collective"], asked["ranks"], first, last, factor), conditions, console)
    if done.failures:
        raise UnmeasuredError("; ".join(f"{name}: {said}" for name, said in done.failures.items()))
    return done.record


def measure_all(
    asked: Mapping[str, list[Record]], conditions: peers_run.Conditions, console: Console
) -> tuple[dict[str, Record], dict[str, str]]:
    """The records of all runs that could be made, and why the others could not, by name."""
    measures: dict[str, Callable[[Record], Record]] = {
        "run": measure_run,
        "peers": lambda each: measure_peers(each, conditions, console),
        "training": training.measure,
    }
    records: dict[str, Record] = {}
    reasons: dict[str, str] = {}
    for kind, measure in measures.items():
        for each in asked.get(kind, []):
            console.print(f"measuring {each['name']}", markup=False, highlight=False)
            try:
                records[each["name"]] = measure(each)
            except (UnmeasuredError, run.ImpossibleError, ProgramError, RankFailedError) as error:
                reasons[each["name"]] = str(error)
    return records, reasons


def judge(target: Record, records: Mapping[str, Record], reasons: Mapping[str, str]) -> Verdict:
    """What became of one target."""
    named = (target["run"], target.get("size", ""), wanted(target))
    needed = [target["run"], *([target["than_run"]] if "than_run" in target else [])]
    if missing := [name for name in needed if name not in records]:
        return Verdict(*named, None, False, reasons.get(missing[0], f"there is no run {missing[0]!r}"))
    found = value(target, records)
    reached = found >= target["at_least"] if "at_least" in target else found <= target["at_most"]
    return Verdict(*named, found, reached)


def wanted(target: Record) -> str:
    """The target in words."""
    other = target.get("than") or target.get("than_run")
    if "at_least" in target:
        return f"≥ {target['at_least']:g} × as fast as {other}"
    return f"≤ {target['at_most']:g} × the time of {other}" if other else f"≤ {target['at_most']:g} µs"


def value(target: Record, records: Mapping[str, Record]) -> float:
    """The figure that the target is about, in its unit."""
    record = records[target["run"]]
    if "than_run" in target:
        return seconds(record, target["size"]) / seconds(records[target["than_run"]], target["size"])
    if "than" not in target:
        return seconds(record, target["size"]) * 1e6
    faster = ratio(record, target.get("size"), target["than"])
    return faster if "at_least" in target else 1 / faster


def seconds(record: Record, size: str) -> float:
    """The median time of ucxring."""
    chosen = [row for row in record["rows"] if row["backend"] == OWN and row["size"] == parse_size(size)]
    return float(chosen[0]["median_seconds"])


def ratio(record: Record, size: str | None, other: str) -> float:
    """How many times as long the other took: at one size, on the geometric mean, or at the worst of `each` size."""
    if size == "mean":
        return float(record["geometric_means"][other])
    if size == "each":
        return min(float(each[other]) for each in record["ratios"].values())
    ratios = record["ratios"]["" if size is None else str(parse_size(size))]
    return float(ratios[other])


def table(verdicts: list[Verdict]) -> Table:
    """One line per target."""
    made = Table(title="Targets inside one machine")
    for heading in ("run", "size", "wanted", "found", ""):
        made.add_column(heading)
    for each in verdicts:
        found = each.why or "–" if each.found is None else f"{each.found:.3g}"
        made.add_row(each.run, each.size, each.wanted, found, "[green]reached[/]" if each.reached else "[red]MISSED[/]")
    return made


def execute(conditions: peers_run.Conditions) -> int:
    """Measures everything and reports; 0 when all targets are reached."""
    console = console_output.make()
    asked = load()
    about = machine.describe()
    records, reasons = measure_all(asked, conditions, console)
    verdicts = [judge(target, records, reasons) for target in asked["target"]]
    console.print(table(verdicts))
    if conditions.json_file:
        listed = [vars(each) for each in verdicts]
        document = {"conditions": about, "targets": listed, "runs": records, "unmeasured": reasons}
        conditions.json_file.write_text(json.dumps(document, indent=1))
    return 0 if all(each.reached for each in verdicts) else 1
