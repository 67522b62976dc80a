"""Models, batches and checks that the tests of DistributedDataParallel share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import ucxring

SAMPLES = 4
TINY_CAP_MB = 1e-4
# What wraps a module; each takes torch's argument names.
WRAPPERS: dict[str, Callable[..., nn.Module]] = {
    "torch": DistributedDataParallel,
    "ucxring": ucxring.DistributedDataParallel,
}


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def batch(step: int, rank: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(SAMPLES, 8, generator=generator), torch.randn(SAMPLES, 4, generator=generator)


def whole_batch(step: int, world_size: int) -> tuple[Tensor, Tensor]:
    parts = [batch(step, rank) for rank in range(world_size)]
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def loss_of(model: Callable[..., Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.mse_loss(model(inputs), targets)


def assert_gradients_match(model: nn.Module, reference: nn.Module, tolerance: float = 1e-6) -> None:
    for (name, ours), theirs in zip(model.named_parameters(), reference.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None), name
        if ours.grad is not None:
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=tolerance, atol=tolerance, msg=name)


def assert_same_bits_everywhere(tensors: Sequence[Tensor]) -> None:
    flat = torch.cat([tensor.detach().reshape(-1).contiguous().view(torch.uint8) for tensor in tensors])
    parts = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, flat)
    assert all(torch.equal(part, flat) for part in parts)


class CountedGroup:
    """Counts the collectives of the default group's backend, by name, while it is a context."""

    def __enter__(self) -> CountedGroup:
        self._profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        self._profiler.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._profiler.__exit__(*error)  # type: ignore[arg-type]
        self.names = [event.name for event in self._profiler.events() if event.name.startswith("ucxring:")]


def train(rank: int, world_size: int, steps: int = 4, micro: int = 1, **kwargs: Any) -> None:
    """Steps of momentum SGD in micro-batches beside one process on the whole batch."""
    reference = make_model()
    model = copy.deepcopy(reference)
    if rank != 0:
        for parameter in model.parameters():
            parameter.data.add_(1.0)
    ddp = ucxring.DistributedDataParallel(model, bucket_cap_mb=TINY_CAP_MB, **kwargs)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (reference, ddp)]
    for step in range(steps):
        loss_of(reference, *whole_batch(step, world_size)).backward()
        chunks = list(zip(*(each.chunk(micro) for each in batch(step, rank)), strict=True))
        for inputs, targets in chunks[:-1]:
            with ddp.no_sync():
                (loss_of(ddp, inputs, targets) / micro).backward()
        (loss_of(ddp, *chunks[-1]) / micro).backward()
        assert_gradients_match(model, reference)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=step % 2 == 0)
    assert_same_bits_everywhere(list(model.parameters()))


def bf16_hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    sent = bucket.buffer().to(torch.bfloat16) / dist.get_world_size()
    future = dist.all_reduce(sent, async_op=True).get_future()
    return future.then(lambda done: done.value()[0].to(bucket.buffer().dtype))


class Branches(nn.Module):
    """One of two branches is used, one layer never."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList([nn.Linear(8, 4), nn.Linear(8, 4)])
        self.never = nn.Linear(8, 4)

    def forward(self, inputs: Tensor, branch: int) -> Tensor:
        return self.branches[branch](inputs)
