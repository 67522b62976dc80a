"""The demo: one training done over ucxring, over Gloo and in one process, and the three compared."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ucxring import console as console_output
from ucxring import launch
from ucxring.examples.digits import Result

LEAST_ACCURACY = 0.97
LOSS_TOLERANCE = 1e-3  # rounding grows along a few hundred steps in float32; seen: 4e-5
MODULE = "ucxring.examples.digits"


@dataclass(frozen=True)
class Options:
    """What `ucxring demo` was asked for."""

    ranks: int = 2
    backend: str = "ucxring"
    epochs: int = 10
    seed: int = 0
    output: Path = Path("ucxring-demo")


@dataclass(frozen=True)
class Check:
    """One thing that must hold."""

    what: str
    value: str
    wanted: str
    passed: bool


def train(options: Options, name: str, distributed: bool) -> Result:
    """One training in fresh processes; `name` is the backend, or the name of the file for one process."""
    file = options.output / f"{name}.json"
    arguments = ["-m", MODULE, f"--epochs={options.epochs}", f"--seed={options.seed}", f"--output={file}"]
    if distributed:
        launch.run(launch.Job([*arguments, f"--backend={name}"], options.ranks))
    else:
        launch.run_alone([*arguments, f"--as-ranks={options.ranks}"])
    return Result(**json.loads(file.read_text()))


def largest_difference(left: Sequence[float], right: Sequence[float]) -> float:
    """Largest difference of two loss curves at the same step; infinite when one of them is not a number."""
    if len(left) != len(right):
        return math.inf
    differences = [abs(a - b) for a, b in zip(left, right, strict=True)]
    return max(differences) if all(map(math.isfinite, differences)) else math.inf


def checks(tested: Result, gloo: Result, alone: Result) -> list[Check]:
    """What the demo promises, and whether it holds."""
    found = []
    for result in (tested, gloo, alone):
        enough = result.accuracy >= LEAST_ACCURACY
        label = "one process" if result.world_size == 1 else result.backend
        found.append(Check(f"test accuracy, {label}", f"{result.accuracy:.2%}", f"≥ {LEAST_ACCURACY:.0%}", enough))
    same = tested.replicas_identical
    found.append(Check(f"replicas bit-identical on all {tested.world_size} ranks", _yes(same), "yes", same))
    for other, label in ((alone, "one process"), (gloo, "Gloo")):
        difference = largest_difference(tested.step_losses, other.step_losses)
        passed = difference <= LOSS_TOLERANCE
        wanted = f"≤ {LOSS_TOLERANCE:.0e}"
        found.append(Check(f"largest loss difference to {label}", f"{difference:.1e}", wanted, passed))
    return found


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def show(console: Console, found: Sequence[Check], results: Sequence[Result]) -> None:
    """Prints the table."""
    table = Table(title="DistributedDataParallel on handwritten digits")
    for heading in ("check", "found", "wanted", ""):
        table.add_column(heading)
    for check in found:
        table.add_row(check.what, check.value, check.wanted, "[green]ok[/]" if check.passed else "[red]FAILED[/]")
    for result in results:
        label = "one process" if result.world_size == 1 else f"{result.backend}, {result.world_size} ranks"
        table.add_row(f"training time, {label}", f"{result.seconds:.1f} s", "", "")
    console.print(table)


def plot(file: Path, results: Sequence[Result]) -> None:
    """Draws the loss curves and their differences to the last of `results`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (curves, differences) = pyplot.subplots(2, 1, figsize=(8, 7), sharex=True, layout="constrained")
    reference = results[-1]
    for result, style in zip(results, ("-", "--", ":"), strict=True):
        label = "one process" if result.world_size == 1 else f"{result.backend}, {result.world_size} ranks"
        curves.semilogy(result.step_losses, style, label=label)
        if result is not reference:
            gaps = [abs(a - b) for a, b in zip(result.step_losses, reference.step_losses, strict=True)]
            differences.plot(gaps, style, label=f"{label} − one process")
    curves.set_ylabel("training loss")
    differences.axhline(LOSS_TOLERANCE, color="grey", linewidth=0.8, label="tolerance")
    differences.set_yscale("symlog", linthresh=1e-7)
    differences.set_ylabel("absolute difference")
    differences.set_xlabel("step")
    curves.legend()
    differences.legend()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def run(options: Options) -> int:
    """Runs the demo; 0 when everything holds."""
    console = console_output.make()
    options.output.mkdir(parents=True, exist_ok=True)
    with launch.terminate_as_exception():
        tested = train(options, options.backend, distributed=True)
        gloo = train(options, "gloo", distributed=True)
        alone = train(options, "one-process", distributed=False)
    found = checks(tested, gloo, alone)
    show(console, found, (tested, gloo, alone))
    picture = options.output / "losses.png"
    plot(picture, (tested, gloo, alone))
    console.print(f"loss curves: {picture}")
    return 0 if all(check.passed for check in found) else 1
