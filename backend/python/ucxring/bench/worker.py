"""One rank of a benchmark run: every backend in the same processes, trials taken in turn."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from ucxring.bench import perf_stat, systems
from ucxring.bench.operations import Operation
from ucxring.bench.plan import Plan
from ucxring.bench.systems import System

WARM_UP = 3
MOST_ITERATIONS = 2000
PERF_BYTES = 2 << 30


@dataclass(frozen=True)
class Sample:
    """One trial of one backend at one size, as this rank saw it."""

    backend: str
    size: int
    trial: int
    iterations: int
    seconds: float
    cpu_seconds: float


def cpu_seconds() -> float:
    """User and system time of all threads of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def agreed_iterations(system: System, operation: Operation, plan: Plan) -> int:
    """How often to call the operation in one trial; rank 0 decides for all."""
    for _ in range(WARM_UP):
        operation.run(system.group)
    system.finish()
    start = time.perf_counter()
    for _ in range(WARM_UP):
        operation.run(system.group)
    system.finish()
    each = (time.perf_counter() - start) / WARM_UP
    wanted = torch.tensor([min(MOST_ITERATIONS, max(1, round(plan.sample_ms / 1e3 / each)))])
    dist.broadcast(wanted, 0, group=system.control)
    return int(wanted)


def take(system: System, operation: Operation, trial: int, iterations: int) -> Sample:
    """Times `iterations` calls, begun together."""
    dist.barrier(group=system.control)
    cpu, start = cpu_seconds(), time.perf_counter()
    for _ in range(iterations):
        operation.run(system.group)
    system.finish()
    seconds = time.perf_counter() - start
    return Sample(system.name, operation.bytes, trial, iterations, seconds, cpu_seconds() - cpu)


def check(found: Sequence[System], operations: Mapping[str, Operation]) -> None:
    """Runs each system once on exact inputs. Raises RuntimeError when a bit of a result is wrong."""
    for system in found:
        if system.checked:
            operations[system.name].check(system.group, system.name)


def measure(plan: Plan, found: list[System], size: int) -> list[Sample]:
    """All samples at one size. Results are checked before and after."""
    operations = systems.operations_of(plan, found, size)
    check(found, operations)
    iterations = {system.name: agreed_iterations(system, operations[system.name], plan) for system in found}
    samples = []
    for trial in range(plan.trials):
        turn = trial % len(found)
        for system in (*found[turn:], *found[:turn]):
            samples.append(take(system, operations[system.name], trial, iterations[system.name]))
    check(found, operations)
    return samples


def count_events(plan: Plan, found: list[System]) -> dict[str, dict[str, float]]:
    """Events of `perf stat` per gigabyte at the largest size, for each system."""
    operations = systems.operations_of(plan, found, plan.sizes[-1])
    counts = {}
    for system in found:
        operation = operations[system.name]
        calls = max(1, PERF_BYTES // max(1, operation.bytes))
        operation.run(system.group)
        with perf_stat.Counter(os.getpid()) as counter:
            dist.barrier(group=system.control)
            for _ in range(calls):
                operation.run(system.group)
            system.finish()
        gigabytes = calls * operation.bytes / 1e9
        counts[system.name] = {event: value / gigabytes for event, value in counter.counts.items()}
    return counts


def main() -> int:
    """Runs the plan in argument 1 and writes this rank's samples into the folder in argument 2."""
    plan, folder = Plan.from_text(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=FutureWarning)  # newer names of operations, which older torch lacks
    if plan.bind:
        systems.bind(int(os.environ["RANK"]))
    found = systems.join(plan)
    samples: list[Sample] = []
    for size in plan.sizes:
        samples += measure(plan, found, size)
    events = count_events(plan, found) if plan.perf and plan.sizes[-1] else {}
    answer = {"samples": [asdict(sample) for sample in samples], "events": events}
    (folder / f"rank{dist.get_rank()}.json").write_text(json.dumps(answer))
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
