"""What the examples share: the group, the wrapper around a model, and what the ranks tell one another."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as TorchDistributedDataParallel

from ucxring.ddp import DistributedDataParallel

WRAPPERS = ("ucxring", "torch", "torch-view")  # the last is torch's with gradient_as_bucket_view


@contextlib.contextmanager
def group(backend: str) -> Iterator[None]:
    """The default process group that torchrun describes; without torchrun, a group of this process alone."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def launched_ranks() -> int:
    """How many ranks the group will have; known before there is one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def check_batch(parser: argparse.ArgumentParser, batch: int, micro_batches: int) -> None:
    """Ends the program with a message when the global batch does not split evenly."""
    parts = launched_ranks() * micro_batches
    if batch % parts:
        parser.error(f"--batch must be a multiple of ranks × micro-batches ({parts})")


def add_arguments(parser: argparse.ArgumentParser, backend: str, wrapper: str) -> None:
    """The options by which a run chooses its backend and wrapper."""
    parser.add_argument("--backend", default=backend, help="c10d backend (default: %(default)s)")
    parser.add_argument(
        "--wrapper", choices=WRAPPERS, default=wrapper, help="whose DistributedDataParallel (default: %(default)s)"
    )


def wrap(module: nn.Module, wrapper: str, process_group: dist.ProcessGroup | None = None) -> nn.Module:
    """The module in a `DistributedDataParallel`, that of ucxring or that of torch; None is the default group."""
    if wrapper == "ucxring":
        return DistributedDataParallel(module, process_group=process_group)
    view = wrapper == "torch-view"
    return TorchDistributedDataParallel(module, process_group=process_group, gradient_as_bucket_view=view)


def global_mean(values: Tensor) -> Tensor:
    """The mean over ranks, element by element; changes `values`."""
    if dist.is_initialized():
        dist.all_reduce(values)
        values /= dist.get_world_size()
    return values


def parameter_hashes(model: nn.Module) -> list[str]:
    """SHA-256 of the parameters' bytes, of every rank."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().contiguous().numpy().tobytes())
    own = torch.tensor(list(digest.digest()), dtype=torch.uint8)
    gathered = [own]
    if dist.is_initialized():
        gathered = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, own)
    return [bytes(each.tolist()).hex() for each in gathered]


def conclude(result: Any, report: Callable[[Any], None], output: Path | None) -> int:
    """Rank 0 reports and writes `output`; the exit code says whether the replicas are identical.

    `result` is a dataclass with `parameter_hashes`.
    """
    if dist.get_rank() == 0:
        report(result)
        if output:
            output.write_text(json.dumps(asdict(result)))
    return 0 if len(set(result.parameter_hashes)) == 1 else 1


def print_replicas(hashes: list[str]) -> None:
    """Says whether the parameters of all ranks are the same bits."""
    for rank, digest in enumerate(hashes):
        print(f"parameters of rank {rank}: {digest[:16]}")
    if len(hashes) > 1:
        print(f"replicas bit-identical: {'yes' if len(set(hashes)) == 1 else 'NO'}")
