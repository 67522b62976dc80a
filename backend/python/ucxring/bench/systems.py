"""The systems that a run compares, and what each of them needs from the machine and from torch."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor

import ucxring
from ucxring.bench import operations
from ucxring.bench.operations import Allocate, Group, Operation
from ucxring.bench.plan import MEMCPY, Plan

NCCL = "nccl"
FAKE = "fake"  # torch's backend that does nothing: what is left is the time of Python and c10d
TIMEOUT = timedelta(seconds=120)


def unavailable(plan: Plan) -> str | None:
    """Why the plan's systems cannot be measured here; None when they can."""
    if NCCL in plan.backends and not (torch.cuda.is_available() and dist.is_nccl_available()):
        return "backend nccl needs a CUDA device and a torch that was built with NCCL"
    if plan.registered and not hasattr(ucxring, "empty"):
        return "--registered needs ucxring.empty, which this version of ucxring does not have"
    return None


@dataclass(frozen=True)
class System:
    """One column of the result. `control` is the group whose barrier begins its trials."""

    name: str
    group: Group
    control: Group

    @property
    def checked(self) -> bool:
        """Whether results are compared with the exact ones."""
        return self.name not in (FAKE, MEMCPY)

    @property
    def on_gpu(self) -> bool:
        """Whether it works on tensors of a CUDA device."""
        return self.name == NCCL

    def finish(self) -> None:
        """Waits until what was called has happened."""
        if self.on_gpu:
            torch.cuda.synchronize()


def bind(rank: int) -> None:
    """Keeps this process, and the threads that it starts later, on one of its cores; neighbours in rank apart."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})


def join(plan: Plan) -> list[System]:
    """One process group of all ranks for each backend, and the systems on them.

    Trials of `fake`, of `nccl` and of the memcpy bound begin with the barrier of the first other backend (Gloo when
    there is none): a fake barrier does not wait, and one on the GPU ends there.
    """
    real = [name for name in plan.backends if name not in (FAKE, NCCL)]
    first = real[0] if real else "gloo"
    dist.init_process_group(first, timeout=TIMEOUT)
    if NCCL in plan.backends:
        torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    if FAKE in plan.backends:
        importlib.import_module("torch.testing._internal.distributed.fake_pg")  # registers the backend
    made: dict[str, Group] = {first: None, MEMCPY: None}
    made |= {name: dist.new_group(backend=name, timeout=TIMEOUT) for name in plan.backends if name != first}
    return [System(name, made[name], made[name] if name in real else None) for name in plan.systems]


def operations_of(plan: Plan, systems: list[System], size: int) -> dict[str, Operation]:
    """For each system the operation at one size; systems on the CPU share their tensors."""
    rank = dist.get_rank()
    on_cpu = operations.make(plan, rank, size, _registered() if plan.registered else _zeros("cpu"))
    found = {}
    for system in systems:
        if system.name == MEMCPY:
            found[system.name] = operations.copying(on_cpu.bytes)
        elif system.on_gpu:
            found[system.name] = operations.make(plan, rank, size, _zeros("cuda"))
        else:
            found[system.name] = on_cpu
    return found


def _zeros(device: str) -> Allocate:
    return lambda elements, dtype: torch.zeros(elements, dtype=dtype, device=device)


def _registered() -> Allocate:
    empty = cast(Callable[..., Tensor], ucxring.empty)
    return lambda elements, dtype: empty(elements, dtype=dtype).zero_()
