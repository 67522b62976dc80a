"""What is trained: a network and its batches."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from ucxring.bench.overlap.plan import Plan
from ucxring.examples import minilm, minilm_data, minilm_model
from ucxring.examples.word_pieces import WordPieces

WIDTH = 1024  # a layer's gradients are 4 MiB
BACKWARD_SECONDS_PER_BYTE = 1 / 100e6
SENTENCES = 16
_TRIAL = 128  # rows of the backwards that are timed to choose a batch
Batch = tuple[Tensor, Tensor]  # inputs, labels


@dataclass(frozen=True)
class Task:
    """`batch` is that of one rank in one step; `batches` are endless micro-batches of this rank."""

    network: nn.Module
    batch: int
    batches: Iterator[Batch]


def make(plan: Plan) -> Task:
    """The task that the plan names. Collective: all ranks get the same network."""
    torch.manual_seed(0)
    if plan.model == "minilm":
        classes = len(minilm_data.SUBJECTS)
        return sentences(plan, minilm_model.Classifier(minilm_model.pretrained(), classes))
    network = layers(plan.megabytes)
    batch = plan.batch or plan.micro_batches * max(1, round(rows_for_backward(network) / plan.micro_batches))
    return Task(network, batch, _random_batches(batch // plan.micro_batches))


def sentences(plan: Plan, network: nn.Module) -> Task:
    """Teaches a network with MiniLM's inputs to tell what sentences are about."""
    texts = minilm.Task(WordPieces(minilm_model.folder() / "vocab.txt"), seed=0)
    batch = plan.batch or SENTENCES
    return Task(network, batch, texts.batches(batch * plan.ranks, plan.micro_batches))


def layers(megabytes: int) -> nn.Module:
    """Equal linear layers with so many 10⁶ bytes of parameters, the nearest number of at least one."""
    linear = [nn.Linear(WIDTH, WIDTH) for _ in range(max(1, round(megabytes * 1e6 / (4 * WIDTH * (WIDTH + 1)))))]
    for layer in linear:  # so that gradients are of one size in all layers
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return nn.Sequential(*itertools.chain.from_iterable((layer, nn.ReLU()) for layer in linear))


def loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Of both tasks."""
    return functional.cross_entropy(outputs, labels)


def gradient_bytes(network: nn.Module) -> int:
    """Of one step."""
    return sum(each.nbytes for each in network.parameters() if each.requires_grad)


def rows_for_backward(network: nn.Module) -> int:
    """The batch with which backward takes about a second per 100 MB of gradients. Collective: all compute at once."""
    batches = _random_batches(_TRIAL)
    fastest = torch.full((), torch.inf)
    for _ in range(3):
        inputs, labels = next(batches)
        result = loss(network(inputs), labels)
        dist.barrier()
        start = time.perf_counter()
        result.backward()
        seconds = torch.tensor(time.perf_counter() - start)
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
        fastest = fastest.minimum(seconds)
        network.zero_grad()
    return max(1, round(_TRIAL * gradient_bytes(network) * BACKWARD_SECONDS_PER_BYTE / float(fastest)))


def _random_batches(rows: int) -> Iterator[Batch]:
    generator = torch.Generator().manual_seed(dist.get_rank())
    while True:
        labels = torch.randint(WIDTH, (rows,), generator=generator)
        yield torch.randn(rows, WIDTH, generator=generator), labels
