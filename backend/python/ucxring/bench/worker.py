"""One rank of a benchmark run: every backend in the same processes, trials taken in turn."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from ucxring.bench import operations, perf_stat
from ucxring.bench.operations import Group, Operation
from ucxring.bench.plan import Plan

WARM_UP = 3
MOST_ITERATIONS = 2000
PERF_BYTES = 2 << 30
TIMEOUT = timedelta(seconds=120)


@dataclass(frozen=True)
class Sample:
    """One trial of one backend at one size, as this rank saw it."""

    backend: str
    size: int
    trial: int
    iterations: int
    seconds: float
    cpu_seconds: float


def make_groups(plan: Plan) -> dict[str, Group]:
    """One process group of all ranks for each backend."""
    first, *others = plan.backends
    dist.init_process_group(first, timeout=TIMEOUT)
    made = {name: dist.new_group(backend=name, timeout=TIMEOUT) for name in others}
    return {first: None, **made}


def cpu_seconds() -> float:
    """User and system time of all threads of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def agreed_iterations(operation: Operation, group: Group, plan: Plan) -> int:
    """How often to call the operation in one trial; rank 0 decides for all."""
    for _ in range(WARM_UP):
        operation.run(group)
    start = time.perf_counter()
    for _ in range(WARM_UP):
        operation.run(group)
    each = (time.perf_counter() - start) / WARM_UP
    wanted = torch.tensor([min(MOST_ITERATIONS, max(1, round(plan.sample_ms / 1e3 / each)))])
    dist.broadcast(wanted, 0, group=group)
    return int(wanted)


def take(operation: Operation, group: Group, backend: str, trial: int, iterations: int) -> Sample:
    """Times `iterations` calls, begun together."""
    dist.barrier(group=group)
    cpu, start = cpu_seconds(), time.perf_counter()
    for _ in range(iterations):
        operation.run(group)
    seconds = time.perf_counter() - start
    return Sample(backend, operation.bytes, trial, iterations, seconds, cpu_seconds() - cpu)


def measure(plan: Plan, groups: dict[str, Group], size: int) -> list[Sample]:
    """All samples at one size. Results are checked before and after."""
    operation = operations.make(plan, dist.get_rank(), size)
    iterations = {}
    for name, group in groups.items():
        operation.check(group, name)
        iterations[name] = agreed_iterations(operation, group, plan)
    samples = []
    for trial in range(plan.trials):
        turn = trial % len(plan.backends)
        for name in (*plan.backends[turn:], *plan.backends[:turn]):
            samples.append(take(operation, groups[name], name, trial, iterations[name]))
    for name, group in groups.items():
        operation.check(group, name)
    return samples


def count_events(plan: Plan, groups: dict[str, Group]) -> dict[str, dict[str, float]]:
    """Events of `perf stat` per gigabyte at the largest size, for each backend."""
    operation = operations.make(plan, dist.get_rank(), plan.sizes[-1])
    calls = max(1, PERF_BYTES // max(1, operation.bytes))
    counts = {}
    for name, group in groups.items():
        operation.run(group)
        with perf_stat.Counter(os.getpid()) as counter:
            dist.barrier(group=group)
            for _ in range(calls):
                operation.run(group)
        gigabytes = calls * operation.bytes / 1e9
        counts[name] = {event: value / gigabytes for event, value in counter.counts.items()}
    return counts


def main() -> int:
    """Runs the plan in argument 1 and writes this rank's samples into the folder in argument 2."""
    plan, folder = Plan.from_text(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=FutureWarning)  # newer names of operations, which older torch lacks
    groups = make_groups(plan)
    samples: list[Sample] = []
    for size in plan.sizes:
        samples += measure(plan, groups, size)
    events = count_events(plan, groups) if plan.perf and plan.sizes[-1] else {}
    answer = {"samples": [asdict(sample) for sample in samples], "events": events}
    (folder / f"rank{dist.get_rank()}.json").write_text(json.dumps(answer))
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
