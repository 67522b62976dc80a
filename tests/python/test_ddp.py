"""DistributedDataParallel over ucxring against the same training in one process."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from harness import run
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

SAMPLES = 4


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def batch(step: int, world_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    count = SAMPLES * world_size
    return torch.randn(count, 8, generator=generator), torch.randn(count, 4, generator=generator)


def share(tensor: torch.Tensor, rank: int) -> torch.Tensor:
    return tensor[rank * SAMPLES : (rank + 1) * SAMPLES]


def assert_close(model: nn.Module, reference: nn.Module, tolerance: float = 1e-6) -> None:
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def assert_replicas_equal(model: nn.Module, world_size: int) -> None:
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    parts = [torch.empty_like(flat) for _ in range(world_size)]
    dist.all_gather(parts, flat)
    assert all(torch.equal(part.view(torch.int32), flat.view(torch.int32)) for part in parts)


def train_both(
    rank: int, world_size: int, micro: int = 1, tolerance: float = 1e-6, hook: Callable | None = None, **kwargs: object
) -> None:
    """Three steps of DDP, in `micro` micro-batches of which only the last communicates, and of one process."""
    reference = make_model()
    model = copy.deepcopy(reference)
    if rank != 0:
        for parameter in model.parameters():
            parameter.data.add_(1.0)  # DDP must bring the weights of rank 0
    wrapped = DistributedDataParallel(model, bucket_cap_mb=0.0005, **kwargs)
    if hook is not None:
        wrapped.register_comm_hook(None, hook)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (reference, wrapped)]
    for step in range(3):
        inputs, targets = batch(step, world_size)
        nn.functional.mse_loss(reference(inputs), targets).backward()
        chunks = list(zip(share(inputs, rank).chunk(micro), share(targets, rank).chunk(micro), strict=True))
        for chunk_input, chunk_target in chunks[:-1]:
            with wrapped.no_sync():
                (nn.functional.mse_loss(wrapped(chunk_input), chunk_target) / micro).backward()
        (nn.functional.mse_loss(wrapped(chunks[-1][0]), chunks[-1][1]) / micro).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=step % 2 == 0)
    assert_close(wrapped, reference, tolerance)
    assert_replicas_equal(wrapped, world_size)


def summing_hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda future: future.value()[0] / dist.get_world_size())


def halving_hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    return default_hooks.fp16_compress_hook(dist.group.WORLD, bucket)


def training(rank: int, world_size: int) -> None:
    train_both(rank, world_size)
    train_both(rank, world_size, micro=2)
    train_both(rank, world_size, micro=4, gradient_as_bucket_view=True)
    train_both(rank, world_size, find_unused_parameters=True)
    train_both(rank, world_size, static_graph=True)
    train_both(rank, world_size, hook=summing_hook)
    train_both(rank, world_size, hook=halving_hook, tolerance=2e-3)


@pytest.mark.parametrize("world_size", [2, 3])
def test_training(world_size: int) -> None:
    run(training, world_size)


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.never = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, inputs: torch.Tensor, use_left: bool) -> torch.Tensor:
        return self.left(inputs) if use_left else self.right(inputs)


def unused_parameters(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(Branches(), find_unused_parameters=True)
    for step in range(4):
        model.zero_grad()
        model(torch.ones(2, 4), (rank + step) % 2 == 0).sum().backward()
        assert torch.equal(model.module.left.bias.grad, torch.full((4,), 2.0 / world_size))
        assert torch.equal(model.module.right.bias.grad, torch.full((4,), 2.0 / world_size))
        assert model.module.never.weight.grad is None


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for i, dtype in enumerate([torch.float32, torch.bfloat16, torch.float64, torch.float32, torch.complex64]):
            self.register_parameter(f"p{i}", nn.Parameter(torch.ones(3, dtype=dtype)))
        self.empty = nn.Parameter(torch.empty(0))
        self.register_buffer("counter", torch.tensor(0))
        self.register_buffer("flag", torch.tensor(True))
        self.register_buffer("nothing", torch.empty(0))

    def forward(self, factor: float) -> torch.Tensor:
        total = self.empty.sum()
        for i in range(5):
            parameter = getattr(self, f"p{i}")
            total = total + (parameter * factor).real.float().sum()
        return total


def mixed_dtypes_and_buffers(rank: int, world_size: int) -> None:
    module = Mixed()
    module.counter.fill_(rank + 5)
    module.flag.fill_(rank == 0)
    model = DistributedDataParallel(module, bucket_cap_mb=0.0001)
    for _ in range(3):
        model.zero_grad()
        model(float(rank + 1)).backward()
        mean = (world_size + 1) / 2
        for i in range(5):
            gradient = getattr(module, f"p{i}").grad
            assert torch.equal(gradient, torch.full_like(gradient, mean)), i
        assert module.counter.item() == 5
        assert module.flag.item() is True


def uneven_inputs(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(nn.Linear(1, 1, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Join([model]):
        for _ in range(3 + 2 * rank):
            optimizer.zero_grad()
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
    assert_replicas_equal(model, world_size)


def hook_that_raises(rank: int, world_size: int) -> None:
    def hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        raise KeyError("from the hook")

    model = DistributedDataParallel(make_model())
    model.register_comm_hook(None, hook)
    with pytest.raises(Exception, match="from the hook"):
        model(torch.ones(2, 8)).sum().backward()


def odd_models(rank: int, world_size: int) -> None:
    unused_parameters(rank, world_size)
    mixed_dtypes_and_buffers(rank, world_size)
    uneven_inputs(rank, world_size)
    hook_that_raises(rank, world_size)


def test_odd_models() -> None:
    run(odd_models, 2)


def wrap_and_go_on(model: nn.Module) -> None:
    DistributedDataParallel(model)
    dist.barrier()


def different_models(rank: int, world_size: int) -> str:
    with pytest.raises(RuntimeError) as caught:
        wrap_and_go_on(nn.Linear(4, 4 + rank))
    return str(caught.value)


def test_different_models_are_an_error_on_all_ranks() -> None:
    messages = run(different_models, 2, timeout_s=5)
    assert any("shape" in message.lower() or "size" in message.lower() for message in messages)
