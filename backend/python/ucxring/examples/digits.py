"""Trains a small network on handwritten digits with DistributedDataParallel.

    torchrun --nproc-per-node 2 -m ucxring.examples.digits

Without torchrun it trains in one process; `--as-ranks N` then takes the batches that N ranks would take together, so
that its losses can be compared with theirs step by step.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from ucxring.examples import digits_data
from ucxring.examples.common import global_mean, parameter_hashes, print_replicas
from ucxring.examples.progress import Progress


@dataclass(frozen=True)
class Settings:
    """What one training needs to know. `batch` is the global batch, shared out among the ranks.

    `steps` ends the training after so many steps, in as many epochs as they take; None: after all `epochs`.
    """

    backend: str = "ucxring"
    epochs: int = 10
    batch: int = 64
    learning_rate: float = 3e-3
    seed: int = 0
    as_ranks: int = 1
    steps: int | None = None


@dataclass(frozen=True)
class Result:
    """What rank 0 reports. Losses are means over the global batch of each step."""

    backend: str
    world_size: int
    accuracy: float
    seconds: float
    step_losses: list[float]
    epoch_losses: list[float]
    parameter_hashes: list[str]

    @property
    def replicas_identical(self) -> bool:
        """Whether the parameters of all ranks are the same bits."""
        return len(set(self.parameter_hashes)) == 1


Batches = Iterator[list[Tensor]]


def sampler(data: TensorDataset, rank: int, world_size: int, seed: int) -> DistributedSampler[int]:
    """The part of the data that `rank` sees; equally many samples on every rank."""
    return DistributedSampler(data, world_size, rank, shuffle=True, seed=seed, drop_last=True)


def rank_batches(data: TensorDataset, settings: Settings) -> Callable[[int], Batches]:
    """For an epoch number, the batches of this rank."""
    world_size = dist.get_world_size()
    own = sampler(data, dist.get_rank(), world_size, settings.seed)
    loader = DataLoader(data, settings.batch // world_size, sampler=own, drop_last=True)

    def epoch_batches(epoch: int) -> Batches:
        own.set_epoch(epoch)
        return iter(loader)

    return epoch_batches


def union_batches(data: TensorDataset, settings: Settings) -> Callable[[int], Batches]:
    """For an epoch number, what all of `as_ranks` ranks together take in each step."""
    samplers = [sampler(data, rank, settings.as_ranks, settings.seed) for rank in range(settings.as_ranks)]
    share = settings.batch // settings.as_ranks

    def epoch_batches(epoch: int) -> Batches:
        for each in samplers:
            each.set_epoch(epoch)
        orders = torch.tensor([list(each) for each in samplers])
        for start in range(0, orders.shape[1] - share + 1, share):
            chosen = orders[:, start : start + share].flatten()
            yield [tensor[chosen] for tensor in data.tensors]

    return epoch_batches


def train_epoch(model: nn.Module, batches: Batches, update: Callable[[], None]) -> Tensor:
    """One pass over the batches; the loss of each step, averaged over the ranks."""
    losses = []
    for images, labels in batches:
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        update()
        losses.append(loss.detach())
    return global_mean(torch.stack(losses))


def train(model: nn.Module, data: TensorDataset, settings: Settings) -> tuple[list[float], list[float]]:
    """Trains in place; the losses of all steps and of all epochs."""
    distributed = dist.is_initialized()
    batches = (rank_batches if distributed else union_batches)(data, settings)
    steps_per_epoch = len(list(batches(0)))
    total = settings.steps or settings.epochs * steps_per_epoch
    epoch_count = -(-total // steps_per_epoch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.learning_rate, total_steps=total)

    def update() -> None:
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()

    steps: list[float] = []
    epochs: list[float] = []
    shown = not distributed or dist.get_rank() == 0
    with Progress(epoch_count, f"{settings.backend if distributed else 'one process'}", shown) as progress:
        for epoch in range(epoch_count):
            left = total - epoch * steps_per_epoch
            losses = train_epoch(model, itertools.islice(batches(epoch), left), update).tolist()
            steps += losses
            epochs.append(sum(losses) / len(losses))
            progress.advance(epochs[-1])
    return steps, epochs


@torch.no_grad()
def accuracy(model: nn.Module, data: TensorDataset) -> float:
    """Share of the test images that are recognised; each rank looks at its part of them."""
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    images, labels = (tensor[rank::world_size] for tensor in data.tensors)
    correct = (model(images).argmax(dim=1) == labels).sum().to(torch.int64)
    if dist.is_initialized():
        dist.all_reduce(correct)
    return int(correct) / len(data)


def run(settings: Settings) -> Result:
    """Trains and evaluates; in the default process group when there is one."""
    training, test = digits_data.load(settings.seed)
    network = digits_data.network(settings.seed)
    distributed = dist.is_initialized()
    model = DistributedDataParallel(network) if distributed else network
    start = time.perf_counter()
    steps, epochs = train(model, training, settings)
    seconds = time.perf_counter() - start
    return Result(
        backend=settings.backend if distributed else "none",
        world_size=dist.get_world_size() if distributed else 1,
        accuracy=accuracy(network, test),
        seconds=seconds,
        step_losses=steps,
        epoch_losses=epochs,
        parameter_hashes=parameter_hashes(network),
    )


def report(result: Result) -> None:
    """Prints the outcome for a person."""
    print(f"test accuracy {result.accuracy:.2%} after {result.seconds:.1f} s of training")
    print_replicas(result.parameter_hashes)


def parse(arguments: list[str] | None) -> tuple[Settings, Path | None]:
    """The command line."""
    defaults = Settings()
    parser = argparse.ArgumentParser(prog="ucxring.examples.digits", description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default=defaults.backend, help="c10d backend (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=defaults.epochs)
    parser.add_argument("--steps", type=int, metavar="N", help="end after N steps, whatever --epochs says")
    parser.add_argument("--batch", type=int, default=defaults.batch, help="global batch (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=defaults.learning_rate)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--as-ranks", type=int, default=1, metavar="N", help="one process: take N ranks' batches")
    parser.add_argument("--output", type=Path, help="write the result to this JSON file")
    values = vars(parser.parse_args(arguments))
    output = values.pop("output")
    ranks = max(values["as_ranks"], int(os.environ.get("WORLD_SIZE", "1")))
    if values["epochs"] < 1:
        parser.error("--epochs must be at least 1")
    if values["steps"] is not None and values["steps"] < 1:
        parser.error("--steps must be at least 1")
    if values["batch"] < ranks:
        parser.error(f"--batch must be at least the number of ranks ({ranks})")
    return Settings(**values), output


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    settings, output = parse(arguments)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    distributed = "RANK" in os.environ
    if distributed:
        dist.init_process_group(settings.backend)
    try:
        result = run(settings)
        if not distributed or dist.get_rank() == 0:
            report(result)
            if output:
                output.write_text(json.dumps(asdict(result)))
    finally:
        if distributed:
            dist.destroy_process_group()
    return 0 if result.replicas_identical else 1


if __name__ == "__main__":
    raise SystemExit(main())
