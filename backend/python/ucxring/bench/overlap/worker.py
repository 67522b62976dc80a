"""One rank of `ucxring bench overlap`: all systems in the same processes, taking turns, on the same batches."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch.distributed as dist

from ucxring.bench.overlap import tasks
from ucxring.bench.overlap.plan import Plan, parse_system
from ucxring.bench.overlap.system import Step, System
from ucxring.examples import common

WARM_UP = 2  # rounds that are not counted


@dataclass(frozen=True)
class Sample:
    """One system in one round, in seconds: `compute` is a step in `no_sync`, the rest as in `Step` and `System`."""

    compute: float
    communication: float
    step: float
    with_optimizer: float
    after_last_gradient: float
    own_exposed: float
    own_reducing: float


@dataclass(frozen=True)
class Answer:
    """What rank 0 found. `differences`: how far each system's gradients lie from the first one's, over their length."""

    batch: int
    gradient_bytes: int
    differences: list[float]
    rounds: list[list[Sample]]  # [round][system]


def sample(system: System, batches: Sequence[tasks.Batch], compute_first: bool) -> Sample:
    """The three kinds of step of one system."""
    steps: dict[bool, Step] = {}
    steps[not compute_first] = system.step(batches, communicate=not compute_first)
    communication = system.communication()
    steps[compute_first] = system.step(batches, communicate=compute_first)
    alone, step = steps[False], steps[True]
    return Sample(
        compute=alone.passes,
        communication=communication,
        step=step.passes,
        with_optimizer=step.whole,
        after_last_gradient=step.after_last_gradient,
        own_exposed=step.own_exposed,
        own_reducing=step.own_reducing,
    )


def one_round(systems: Sequence[System], batches: Sequence[tasks.Batch], number: int) -> list[Sample]:
    """Each round begins with another system, and each second one with the step that communicates."""
    turns = [(number + turn) % len(systems) for turn in range(len(systems))]
    found = {index: sample(systems[index], batches, number % 2 == 0) for index in turns}
    return [found[index] for index in range(len(systems))]


def apart(systems: Sequence[System], batches: Sequence[tasks.Batch]) -> list[float]:
    """How far the averaged gradients of each system lie from those of the first one, as a share of their length."""
    first = systems[0].gradients(batches)
    return [float((each.gradients(batches) - first).norm() / first.norm()) for each in systems]


def measure(plan: Plan, task: tasks.Task) -> Answer:
    """All rounds, in the default process group."""
    systems = [System(parse_system(name), task.network) for name in plan.systems]
    draws = [list(itertools.islice(task.batches, plan.micro_batches)) for _ in range(1 + WARM_UP + plan.rounds)]
    differences = apart(systems, draws[0])
    rounds = [one_round(systems, batches, number) for number, batches in enumerate(draws[1:])]
    return Answer(task.batch, tasks.gradient_bytes(task.network), differences, rounds[WARM_UP:])


def main() -> int:
    """Runs the plan in argument 1; rank 0 writes the answer into the file in argument 2."""
    plan = Plan.from_text(sys.argv[1])
    with common.group("ucxring"):
        answer = measure(plan, tasks.make(plan))
        if dist.get_rank() == 0:
            Path(sys.argv[2]).write_text(json.dumps(asdict(answer)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
