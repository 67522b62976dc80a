"""`ucxring bench --peers …`: installs, alternates, reports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import ucxring
from ucxring import console as console_output
from ucxring import launch
from ucxring.bench import machine, pictures
from ucxring.bench.peers import compare, programs
from ucxring.bench.peers.catalogue import PEERS
from ucxring.bench.peers.compare import BEST, Measure, Rounds
from ucxring.bench.peers.programs import ProgramError, Task
from ucxring.bench.plan import MEMCPY, show_size
from ucxring.bench.report import show_ratio, show_time

OWN = "ucxring"
WIDTH = 180  # the table has a column for each library, twice


@dataclass(frozen=True)
class Conditions:
    """Whom to compare with, and how."""

    peers: Sequence[str]
    rounds: int = 7
    peer_dir: Path = Path("build/peers")
    program: Path | None = None
    memcpy: bool = False
    json_file: Path | None = None
    picture: Path | None = None


@dataclass(frozen=True)
class Comparison:
    """A finished comparison: its record for JSON, and what failed, by name."""

    record: dict[str, Any]
    failures: Mapping[str, str]


def prepare(task: Task, conditions: Conditions, console: Console) -> tuple[dict[str, Measure], dict[str, Any]]:
    """What measures each system, ucxring first, and how each is set up. A peer that cannot be prepared fails later."""
    program = programs.find_program(conditions.program)
    own = [str(program), "--ranks", str(task.ranks)]
    measures: dict[str, Measure] = {OWN: lambda: programs.measure_own(own, task, program.name)}
    setups: dict[str, Any] = {OWN: {"version": f"{program.name} {ucxring.__version__}", "settings": own[1:]}}
    if conditions.memcpy:
        bound = Task(MEMCPY, task.ranks, task.first, task.last, task.factor, task.dtype)
        measures[MEMCPY] = lambda: programs.measure_own(own, bound, f"{program.name} {MEMCPY}")
    for name in conditions.peers:
        console.print(f"preparing {name}", markup=False, highlight=False)
        try:
            measures[name], setups[name] = _prepare_peer(name, task, conditions.peer_dir.resolve() / name)
        except ProgramError as error:
            measures[name] = _failing(error)
    return measures, setups


def _prepare_peer(name: str, task: Task, folder: Path) -> tuple[Measure, dict[str, Any]]:
    peer = PEERS[name]
    programs.install(peer, folder)
    command = peer.command(folder, task.ranks, [str(programs.compile_program(folder))])
    environment = peer.environment(folder, task.ranks)
    settings = [*(f"{key}={value}" for key, value in peer.settings(task.ranks).items()), *command[1:-1]]
    setup = {"version": programs.versions(folder), "settings": settings}
    return lambda: programs.measure_peer(command, task, name, environment), setup


def _failing(error: ProgramError) -> Measure:
    def fail() -> programs.Results:
        raise error

    return fail


def record(task: Task, made: Rounds, conditions: Conditions, about: Mapping[str, Any]) -> dict[str, Any]:
    """Everything, for JSON; rows are as those of the other benchmarks."""
    found = compare.ratios(made, conditions.peers)
    rounds = [
        {name: {str(size): asdict(times) for size, times in results.items()} for name, results in each.items()}
        for each in made.results
    ]
    return {
        "plan": {**asdict(task), "backends": made.systems, "peers": list(conditions.peers), "rounds": len(rounds)},
        "conditions": dict(about),
        "rows": compare.rows(made, task.collective, task.ranks),
        "ratios": {str(size): each for size, each in found.items()},
        "geometric_means": compare.geometric_means(found),
        "failures": made.failures,
        "rounds": rounds,
    }


def table(result: Mapping[str, Any]) -> Table:
    """One line per size: the median and the least time of each system, and how many times as long the others took."""
    plan = result["plan"]
    title = f"{plan['collective']}, {plan['dtype']}, {plan['ranks']} ranks, {plan['rounds']} alternating rounds"
    made = Table(title=title, caption="medians of the rounds, and the best of all trials")
    made.add_column("size", justify="right", no_wrap=True)
    for system in plan["backends"]:
        made.add_column(system, justify="right", no_wrap=True)
    columns = list(result["geometric_means"])
    for name in columns:
        made.add_column(f"{'best peer' if name == BEST else name}\n÷ {OWN}", justify="right", no_wrap=True)
    for size, others in result["ratios"].items():
        cells = [show_size(int(size))]
        for row in (row for row in result["rows"] if row["size"] == int(size)):
            cells.append(f"{show_time(row['median_seconds'])} ({show_time(row['least_seconds'])})")
        made.add_row(*cells, *(show_ratio(others[name]) for name in columns))
    blanks = [""] * len(plan["backends"])
    made.add_row("mean", *blanks, *(show_ratio(result["geometric_means"][name]) for name in columns))
    return made


def measure(task: Task, conditions: Conditions, console: Console) -> Comparison:
    """Prepares and alternates. Raises `ProgramError` when ucxring's own program is missing."""
    about = machine.describe()
    with launch.terminate_as_exception():
        measures, about["setups"] = prepare(task, conditions, console)
        made = compare.alternate(OWN, measures, conditions.rounds, lambda text: console.print(text, highlight=False))
    return Comparison(record(task, made, conditions, about), made.failures)


def run(task: Task, conditions: Conditions) -> int:
    """Measures and reports; 1 when anything failed, after the rest was measured."""
    console = console_output.make(WIDTH)
    try:
        done = measure(task, conditions, console)
    except ProgramError as error:
        console.print(str(error), markup=False)
        return 1
    if done.record["rows"]:
        console.print(table(done.record))
    for name, said in done.failures.items():
        console.print(f"{name} FAILED: {said}", markup=False, highlight=False)
    if conditions.json_file:
        conditions.json_file.write_text(json.dumps(done.record, indent=1))
    if conditions.picture:
        for file in pictures.draw(done.record, conditions.picture):
            console.print(f"picture: {file}", markup=False)
    return 1 if done.failures else 0
