"""Trains a character-level GPT on Python's own language reference, with gradient accumulation.

    torchrun --nproc-per-node 2 -m ucxring.examples.char_gpt

Without torchrun it trains in one process, with the same global batches and therefore the same losses. Nothing is
downloaded: the text comes with Python. The default run takes about a minute.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from ucxring.arguments import at_least
from ucxring.ddp import accumulate
from ucxring.examples import common
from ucxring.examples.char_gpt_model import CharGPT, Shape, Text
from ucxring.examples.progress import Progress

Batch = tuple[Tensor, Tensor]  # characters, and the character after each


@dataclass(frozen=True)
class Settings:
    """What one training needs to know. `batch` is the global batch: sequences of a step over all ranks."""

    backend: str = "ucxring"
    wrapper: str = "ucxring"
    steps: int = 500
    batch: int = 16
    micro_batches: int = 2  # so many on each rank in a step
    learning_rate: float = 4e-3
    seed: int = 0
    write: int = 300  # characters of text in the end


@dataclass(frozen=True)
class Result:
    """What rank 0 reports. Losses are means per character, in nats."""

    world_size: int
    seconds: float
    characters_per_second: float  # trained on, all ranks together
    loss_before: float  # on text held back
    loss_after: float
    step_losses: list[float]
    sample: str
    parameter_hashes: list[str]


def micro_batches(text: Text, shape: Shape, settings: Settings) -> Iterator[Batch]:
    """The micro-batches of this rank, step after step: its share of global batches that all ranks draw alike."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(settings.seed)
    window = torch.arange(shape.context + 1)
    while True:
        starts = torch.randint(len(text.training) - shape.context, (settings.batch,), generator=generator)
        sequences = text.training[starts[:, None] + window]
        for part in sequences.chunk(world_size)[rank].chunk(settings.micro_batches):
            yield part[:, :-1], part[:, 1:]


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    """Mean cross-entropy over all characters of the batch."""
    inputs, following = batch
    return functional.cross_entropy(model(inputs).flatten(0, 1), following.flatten())


@torch.no_grad()
def validation_loss(network: nn.Module, text: Text, shape: Shape, sequences: int = 64) -> float:
    """Loss on text held back, every rank on its part of it."""
    starts = torch.linspace(0, len(text.validation) - shape.context - 1, sequences).long()
    parts = text.validation[starts[:, None] + torch.arange(shape.context + 1)]
    own = parts[dist.get_rank() :: dist.get_world_size()]
    total = loss_of(network, (own[:, :-1], own[:, 1:])) * len(own)
    return float(common.global_mean(total) * dist.get_world_size() / sequences)


def train(model: nn.Module, batches: Iterator[Batch], settings: Settings, characters: int) -> list[float]:
    """Trains in place; the loss of each step, averaged over the ranks. A step is on so many `characters`."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.learning_rate, total_steps=settings.steps)
    losses: list[float] = []
    total = torch.zeros(())
    count = settings.steps * settings.micro_batches
    with Progress(settings.steps, "char GPT", dist.get_rank() == 0, "step") as progress:
        start = time.perf_counter()
        for micro in accumulate(model, itertools.islice(batches, count), settings.micro_batches):
            loss = loss_of(model, micro.data)
            micro.backward(loss)
            total += micro.weight * loss.detach()
            if micro.is_last:
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                losses.append(float(common.global_mean(total)))
                total.zero_()
                rate = characters * len(losses) / (time.perf_counter() - start)
                progress.advance(losses[-1], f"{rate:,.0f} characters/s")
    return losses


def run(settings: Settings) -> Result:
    """Trains and evaluates in the default process group."""
    text = Text()
    shape = Shape(len(text.characters))
    network = CharGPT(shape, settings.seed)
    before = validation_loss(network, text, shape)
    model = common.wrap(network, settings.wrapper)
    characters = settings.batch * shape.context
    start = time.perf_counter()
    losses = train(model, micro_batches(text, shape, settings), settings, characters)
    seconds = time.perf_counter() - start
    generator = torch.Generator().manual_seed(settings.seed)
    sample = network.write(text.validation[: shape.context], settings.write, generator)
    return Result(
        world_size=dist.get_world_size(),
        seconds=seconds,
        characters_per_second=characters * settings.steps / seconds,
        loss_before=before,
        loss_after=validation_loss(network, text, shape),
        step_losses=losses,
        sample=text.decode(sample),
        parameter_hashes=common.parameter_hashes(network),
    )


def report(result: Result) -> None:
    """Prints the outcome for a person."""
    print(f"loss on text held back: {result.loss_before:.3f} before, {result.loss_after:.3f} after", end=" ")
    print(f"{result.seconds:.1f} s at {result.characters_per_second:,.0f} characters/s")
    common.print_replicas(result.parameter_hashes)
    print("what it writes now:")
    print("\n".join(f"  | {line}" for line in result.sample.splitlines()))


def parse(arguments: list[str] | None) -> tuple[Settings, Path | None]:
    """The command line."""
    defaults = Settings()
    parser = argparse.ArgumentParser(prog="ucxring.examples.char_gpt", description=(__doc__ or "").split("\n")[0])
    common.add_arguments(parser, defaults.backend, defaults.wrapper)
    parser.add_argument("--steps", type=at_least(1), default=defaults.steps, help="(default: %(default)s)")
    parser.add_argument("--batch", type=at_least(1), default=defaults.batch, help="global batch (default: %(default)s)")
    parser.add_argument("--micro-batches", type=at_least(1), default=defaults.micro_batches, metavar="K")
    parser.add_argument("--learning-rate", type=float, default=defaults.learning_rate)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--write", type=at_least(1), default=defaults.write, metavar="N", help="characters in the end")
    parser.add_argument("--output", type=Path, help="write the result to this JSON file")
    values = vars(parser.parse_args(arguments))
    output = values.pop("output")
    common.check_batch(parser, values["batch"], values["micro_batches"])
    return Settings(**values), output


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    settings, output = parse(arguments)
    with common.group(settings.backend):
        return common.conclude(run(settings), report, output)


if __name__ == "__main__":
    raise SystemExit(main())
