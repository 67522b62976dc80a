"""Compares the step of the MiniLM fine-tuning under torch's DistributedDataParallel and under ucxring's.

    torchrun --nproc-per-node 2 -m ucxring.examples.minilm_compare
    python -m ucxring.examples.minilm_compare --namespaces 2 --rate 1gbit \
        --systems ucxring/ucxring/int8,ucxring/ucxring/bf16,ucxring/ucxring

All systems run in the same processes and take turns, on the same batches, so that whatever else happens on the machine
meets all of them. In each round a system does its step twice: once without communication (all of it in `no_sync`), once
as a training does. The difference is what communication costs: its exposed part.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from rich.table import Table
from torch import nn

from ucxring import console, launch
from ucxring.arguments import at_least
from ucxring.bench import namespaces
from ucxring.examples import common, minilm, minilm_data, minilm_model
from ucxring.examples.compared_system import HOOKS, Step, System, SystemName, parse_system
from ucxring.examples.word_pieces import WordPieces

DEFAULT_SYSTEMS = "ucxring/ucxring,torch/ucxring,torch/gloo"
WARM_UP = 2  # rounds that are not counted
EXACT, COMPRESSED = 1e-5, 0.1  # how far gradients of two systems may lie apart, without hooks and with them
COLUMNS = ("compute", "exposed", "after_last_gradient", "own_exposed", "own_reducing", "step")
Row = dict[str, float]  # medians in seconds for each of COLUMNS
Round = list[tuple[Step, Step]]  # of each system, without and with communication


def measure(systems: Sequence[System], batches: Sequence[minilm.Batch], number: int) -> Round:
    """One round; each begins with another system, and by turns with the step that communicates or the other."""
    found: dict[SystemName, tuple[Step, Step]] = {}
    first = number % len(systems)
    for system in [*systems[first:], *systems[:first]]:
        if number % 2:
            communicating = system.step(batches, communicate=True)
            found[system.name] = (system.step(batches, communicate=False), communicating)
        else:
            found[system.name] = (system.step(batches, communicate=False), system.step(batches, communicate=True))
    return [found[each.name] for each in systems]


def row_of(steps: Sequence[tuple[Step, Step]]) -> Row:
    """The medians of one system's steps: without communication, what it adds, and what the communicating ones took."""
    return {
        "compute": median(without.passes for without, _ in steps),
        "exposed": median(step.passes - without.passes for without, step in steps),
        "after_last_gradient": median(step.after_last_gradient for _, step in steps),
        "own_exposed": median(step.own_exposed for _, step in steps),
        "own_reducing": median(step.own_reducing for _, step in steps),
        "step": median(step.whole for _, step in steps),
    }


def ratios(rows: Sequence[Row], rounds: Sequence[Round]) -> list[Row]:
    """The first system over each other: by the medians, and for the step the median of the rounds' ratios."""
    result = []
    for index, row in enumerate(rows[1:], start=1):
        over = {name: rows[0][name] / row[name] for name in COLUMNS if row[name] and rows[0][name]}
        over["step"] = median(each[0][1].whole / each[index][1].whole for each in rounds)
        result.append(over)
    return result


def show(names: Sequence[SystemName], rows: Sequence[Row], over: Sequence[Row], rounds: int) -> None:
    """Prints times and ratios."""
    times = Table(title=f"Milliseconds per step, medians of {rounds} rounds")
    shares = Table(title=f"{names[0]}, over the others")
    for table in (times, shares):
        for heading in ("system", *COLUMNS):
            table.add_column(heading.replace("_", " "))
    for name, row in zip(names, rows, strict=True):
        times.add_row(str(name), *(f"{1000 * row[column]:.1f}" if row[column] else "" for column in COLUMNS))
    for name, row in zip(names[1:], over, strict=True):
        shares.add_row(str(name), *(f"{row[column]:.2f}" if column in row else "" for column in COLUMNS))
    printer = console.make(plain_width=140)
    printer.print(times)
    printer.print(shares)


def run(values: argparse.Namespace, network: nn.Module) -> int:
    """Measures in the default process group; 1 when the systems' gradients differ."""
    task = minilm.Task(WordPieces(minilm_model.folder() / "vocab.txt"), values.seed)
    batches = task.batches(values.batch, values.micro_batches)
    systems = [System(name, network) for name in values.systems]
    steps = [list(itertools.islice(batches, values.micro_batches)) for _ in range(1 + WARM_UP + values.rounds)]
    differences = apart(systems, steps[0])
    rounds = [measure(systems, own, number) for number, own in enumerate(steps[1:])][WARM_UP:]
    rows = [row_of([each[index] for each in rounds]) for index in range(len(systems))]
    over = ratios(rows, rounds)
    if dist.get_rank() == 0:
        show(values.systems, rows, over, values.rounds)
        for name, difference in zip(values.systems[1:], differences, strict=True):
            print(f"gradients differ from those of {name} by {difference:.1e} of their length")
        if values.output:
            write(values, rows, over, rounds)
    exact = all(name.hook == "none" for name in values.systems)
    return 0 if max(differences, default=0.0) <= (EXACT if exact else COMPRESSED) else 1


def write(values: argparse.Namespace, rows: Sequence[Row], over: Sequence[Row], rounds: Sequence[Round]) -> None:
    """Writes everything to the file that was asked for."""
    names = [str(name) for name in values.systems]
    content = {
        "ranks": dist.get_world_size(),
        "batch": values.batch,
        "micro_batches": values.micro_batches,
        "rate": values.rate,
        "rows": dict(zip(names, rows, strict=True)),
        "ratios": dict(zip(names[1:], over, strict=True)),
        "rounds": [[[asdict(step) for step in pair] for pair in each] for each in rounds],
    }
    values.output.write_text(json.dumps(content, indent=1))


def apart(systems: Sequence[System], batches: Sequence[minilm.Batch]) -> list[float]:
    """How far the averaged gradients of each system lie from those of the first one, as a share of their length."""
    first = systems[0].gradients(batches)
    return [float((each.gradients(batches) - first).norm() / first.norm()) for each in systems[1:]]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="ucxring.examples.minilm_compare", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--systems",
        default=DEFAULT_SYSTEMS,
        metavar="WRAPPER/BACKEND[/HOOK],…",
        help=f"the first is compared with the others; hooks: {', '.join(HOOKS)} (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=at_least(1), default=15, help="(default: %(default)s)")
    parser.add_argument("--batch", type=at_least(1), default=32, help="global batch (default: %(default)s)")
    parser.add_argument("--micro-batches", type=at_least(1), default=2, metavar="K")
    parser.add_argument(
        "--namespaces", type=at_least(2), metavar="N", help="start N ranks, each in a network namespace"
    )
    parser.add_argument("--rate", metavar="R", help="rate of each link between namespaces, such as 1gbit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="write everything to this JSON file")
    values = parser.parse_args(arguments)
    try:
        values.systems = [parse_system(text) for text in values.systems.split(",")]
    except ValueError as error:
        parser.error(str(error))
    ranks = values.namespaces if values.namespaces and "RANK" not in os.environ else common.launched_ranks()
    common.check_batch(parser, values.batch, values.micro_batches, ranks)
    return values


def start_in_namespaces(values: argparse.Namespace, arguments: list[str]) -> int:
    """Starts this program again, each rank as on a host of its own; 77 when the machine does not permit it."""
    if reason := namespaces.unavailable():
        print(reason, file=sys.stderr)
        return 77
    with launch.terminate_as_exception(), namespaces.Network(values.namespaces, values.rate) as network:
        words = ["-m", "ucxring.examples.minilm_compare", *arguments]
        environment = {"GLOO_SOCKET_IFNAME": namespaces.INTERFACE}
        prefixes = namespaces.prefixes(network)
        launch.run(launch.Job(words, values.namespaces, environment, prefixes, master=network.address(0)))
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    values = parse(arguments)
    if problem := minilm_model.missing():
        print(problem, file=sys.stderr)
        return 1
    if values.namespaces and "RANK" not in os.environ:
        return start_in_namespaces(values, sys.argv[1:] if arguments is None else arguments)
    with common.group("ucxring"):
        torch.manual_seed(values.seed)
        return run(values, minilm_model.Classifier(minilm_model.pretrained(), len(minilm_data.SUBJECTS)))


if __name__ == "__main__":
    raise SystemExit(main())
