"""Compares the step of the MiniLM fine-tuning under torch's DistributedDataParallel and under ucxring's.

    torchrun --nproc-per-node 2 -m ucxring.examples.minilm_compare

All systems run in the same processes and take turns, on the same batches, so that whatever else happens on the machine
meets all of them. In each round a system does its step twice: once without communication (all of it in `no_sync`), once
as a training does. The difference is what communication costs: its exposed part.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from rich.table import Table
from torch import nn
from torch.nn import functional

from ucxring import console
from ucxring.arguments import at_least
from ucxring.ddp.hooks import bf16_compress
from ucxring.ddp.micro_batches import accumulate
from ucxring.examples import common, minilm, minilm_data, minilm_model
from ucxring.examples.backward_clock import BackwardClock
from ucxring.examples.word_pieces import WordPieces

SYSTEMS = (("torch", "gloo"), ("torch", "ucxring"), ("ucxring", "ucxring"))  # wrapper, backend; the last is compared
WARM_UP = 2  # rounds that are not counted


@dataclass(frozen=True)
class Step:
    """Seconds of one step.

    `passes`: forwards and backwards, the slowest rank's. `whole`: with the optimizer. `after_last_gradient`: from the
    last gradient to the end of backward, on the rank where that is shortest, which waits for nobody. `own_clock`: the
    same by ucxring's own timing on that rank; 0 for torch's wrapper.
    """

    passes: float
    whole: float
    after_last_gradient: float
    own_clock: float


@dataclass(frozen=True)
class Row:
    """What is reported of one system: medians over the rounds, in seconds per step."""

    wrapper: str
    backend: str
    compute: float  # forwards and backwards without communication
    exposed: float  # what communication adds to them
    after_last_gradient: float
    own_clock: float
    step: float


class System:
    """One wrapper over one backend, with a model of its own."""

    def __init__(self, wrapper: str, backend: str, network: nn.Module, hook: str) -> None:
        self.name = (wrapper, backend)
        self.model = common.wrap(copy.deepcopy(network), wrapper, dist.new_group(backend=backend))
        if hook == "bf16":
            self.model.register_comm_hook(self.model.process_group, bf16_compress)
        self.clock = BackwardClock(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def step(self, batches: Sequence[minilm.Batch], communicate: bool) -> Step:
        """One step of the training. Without communication its gradients are thrown away."""
        dist.barrier()
        start = time.perf_counter()
        with contextlib.nullcontext() if communicate else self.model.no_sync():
            for micro in accumulate(self.model, batches):
                tokens, labels = micro
                loss = functional.cross_entropy(self.model(tokens), labels)
                with self.clock:
                    micro.backward(loss)
        passed = time.perf_counter()
        if communicate:
            self.optimizer.step()
        self.optimizer.zero_grad()
        return self._over_ranks(passed - start, time.perf_counter() - start)

    def _over_ranks(self, passes: float, whole: float) -> Step:
        after = self.clock.after_last_gradient
        timings = self.model.reducer.take_timings() if self.name[0] == "ucxring" else []
        own = timings[-1].finished - timings[-1].computed if timings else 0.0
        times = torch.tensor([passes, whole, -after, -own], dtype=torch.float64)
        dist.all_reduce(times, dist.ReduceOp.MAX)
        slowest, longest, least, least_own = times.tolist()
        return Step(slowest, longest, -least, -least_own)


@dataclass(frozen=True)
class Round:
    """The steps of all systems in one round, in the order of `SYSTEMS`."""

    without: list[Step]
    communicating: list[Step]


def measure(systems: Sequence[System], batches: Sequence[minilm.Batch], number: int) -> Round:
    """One round; each round begins with another system, and each system in turn with and without communication."""
    without: dict[tuple[str, str], Step] = {}
    communicating: dict[tuple[str, str], Step] = {}
    first = number % len(systems)
    for system in [*systems[first:], *systems[:first]]:
        for communicate in (number % 2 == 0, number % 2 == 1):
            found = communicating if communicate else without
            found[system.name] = system.step(batches, communicate)
    return Round([without[each.name] for each in systems], [communicating[each.name] for each in systems])


def rows(rounds: Sequence[Round]) -> list[Row]:
    """The medians of each system."""
    found = []
    for index, (wrapper, backend) in enumerate(SYSTEMS):
        steps = [each.communicating[index] for each in rounds]
        added = [each.communicating[index].passes - each.without[index].passes for each in rounds]
        found.append(
            Row(
                wrapper,
                backend,
                compute=statistics.median(each.without[index].passes for each in rounds),
                exposed=statistics.median(added),
                after_last_gradient=statistics.median(each.after_last_gradient for each in steps),
                own_clock=statistics.median(each.own_clock for each in steps),
                step=statistics.median(each.whole for each in steps),
            )
        )
    return found


def ratios(found: Sequence[Row], rounds: Sequence[Round]) -> dict[str, dict[str, float]]:
    """The last system over each other: exposed times by their medians, steps by the median over the rounds."""
    last = found[-1]
    result = {}
    for index, row in enumerate(found[:-1]):
        steps = [each.communicating[-1].whole / each.communicating[index].whole for each in rounds]
        result[f"{row.wrapper} on {row.backend}"] = {
            "exposed": last.exposed / row.exposed,
            "after_last_gradient": last.after_last_gradient / row.after_last_gradient,
            "step": statistics.median(steps),
        }
    return result


def show(found: Sequence[Row], compared: dict[str, dict[str, float]], rounds: int) -> None:
    """Prints the tables."""
    times = Table(title=f"Milliseconds per step, medians of {rounds} rounds")
    for heading in ("wrapper", "backend", "compute", "exposed", "after last gradient", "own clock", "step"):
        times.add_column(heading)
    for row in found:
        values = (row.compute, row.exposed, row.after_last_gradient, row.own_clock, row.step)
        times.add_row(row.wrapper, row.backend, *(f"{1000 * value:.1f}" if value else "" for value in values))
    shares = Table(title="ucxring's wrapper on ucxring, over")
    for heading in ("", "exposed", "after last gradient", "step"):
        shares.add_column(heading)
    for name, values in compared.items():
        shares.add_row(name, *(f"{value:.2f}" for value in values.values()))
    printer = console.make(plain_width=120)
    printer.print(times)
    printer.print(shares)


def run(values: argparse.Namespace, network: nn.Module) -> int:
    """Measures in the default process group; 1 when the systems do not train alike."""
    task = minilm.Task(WordPieces(minilm_model.folder() / "vocab.txt"), values.seed)
    batches = task.batches(values.batch, values.micro_batches)
    systems = [System(wrapper, backend, network, values.hook) for wrapper, backend in SYSTEMS]
    rounds = []
    for number in range(WARM_UP + values.rounds):
        own = [next(batches) for _ in range(values.micro_batches)]
        rounds.append(measure(systems, own, number))
    counted = rounds[WARM_UP:]
    found = rows(counted)
    compared = ratios(found, counted)
    apart = largest_difference(systems)
    if dist.get_rank() == 0:
        show(found, compared, values.rounds)
        print(f"largest difference between the systems' parameters: {apart:.1e}")
        if values.output:
            plan = {"ranks": dist.get_world_size(), "batch": values.batch, "micro_batches": values.micro_batches}
            content = {"plan": {**plan, "hook": values.hook}, "rows": [asdict(row) for row in found]}
            content |= {"ratios": compared, "difference": apart, "rounds": [asdict(each) for each in counted]}
            values.output.write_text(json.dumps(content, indent=1))
    return 0 if apart <= values.tolerance else 1


def largest_difference(systems: Sequence[System]) -> float:
    """How far the trained parameters of the systems lie apart: they saw the same batches."""
    flat = [nn.utils.parameters_to_vector(each.model.parameters()).detach() for each in systems]
    return max(float((each - flat[-1]).abs().max()) for each in flat[:-1])


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="ucxring.examples.minilm_compare", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=at_least(1), default=15, help="(default: %(default)s)")
    parser.add_argument("--batch", type=at_least(1), default=32, help="global batch (default: %(default)s)")
    parser.add_argument("--micro-batches", type=at_least(1), default=2, metavar="K")
    parser.add_argument("--hook", choices=minilm.HOOKS, default="none", help="how gradients travel, in all systems")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="how far parameters may lie apart in the end")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="write everything to this JSON file")
    values = parser.parse_args(arguments)
    common.check_batch(parser, values.batch, values.micro_batches)
    return values


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    values = parse(arguments)
    with common.group("ucxring"):
        torch.manual_seed(values.seed)
        return run(values, minilm_model.Classifier(minilm_model.pretrained(), len(minilm_data.SUBJECTS)))


if __name__ == "__main__":
    raise SystemExit(main())
