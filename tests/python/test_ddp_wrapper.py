"""ucxring.DistributedDataParallel against torch's and against one process that sees all samples."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from harness import Ranks, run
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel as TorchDdp
from torch.utils.checkpoint import checkpoint

import ucxring

SAMPLES = 4
TINY_CAP_MB = 1e-4


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


def gradients(model: nn.Module) -> list[Tensor | None]:
    return [None if each.grad is None else each.grad.clone() for each in model.parameters()]


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


def training(rank: int, world_size: int) -> None:
    for as_view in (False, True):
        for micro in (1, 2, 4):
            for find_unused in (False, True):
                train(
                    rank, world_size, micro=micro, gradient_as_bucket_view=as_view, find_unused_parameters=find_unused
                )
        train(rank, world_size, micro=2, gradient_as_bucket_view=as_view, static_graph=True)


@pytest.mark.parametrize("backend", ["ucxring", "gloo"])
def test_training(backend: str) -> None:
    run(training, 2, backend=backend)


def test_training_on_three_ranks() -> None:
    run(train, 3)


def test_training_on_one_rank() -> None:
    run(training, 1)


def counted(rank: int, world_size: int) -> None:
    ddp = ucxring.DistributedDataParallel(make_model(), bucket_cap_mb=TINY_CAP_MB)
    for step in range(3):
        with CountedGroup() as unsynchronised, ddp.no_sync():
            loss_of(ddp, *batch(step, rank)).backward()
        with CountedGroup() as synchronised:
            loss_of(ddp, *batch(step, rank)).backward()
        assert unsynchronised.names == []
        rebuild = ["ucxring:broadcast"] if step == 1 else []
        assert sorted(synchronised.names) == sorted(["ucxring:all_reduce"] * len(ddp.reducer.buckets) + rebuild)
    assert len(ddp.reducer.buckets) > 1


def test_one_collective_per_bucket_and_none_without_synchronisation() -> None:
    run(counted, 2)


def rebuilt(rank: int, world_size: int) -> list[list[int]]:
    class Backwards(nn.Module):
        """Uses its layers in another order than it registers them."""

        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(8, 4)
            self.first = nn.Linear(8, 8)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.last(self.first(inputs))

    ddp = ucxring.DistributedDataParallel(Backwards(), bucket_cap_mb=1e-5)
    before = ddp.reducer.buckets
    for step in range(3):
        loss_of(ddp, *batch(step, rank)).backward()
    assert ddp.reducer.buckets != before
    for parameter in ddp.parameters():
        assert parameter.grad is not None
    assert_same_bits_everywhere([parameter.grad for parameter in ddp.parameters()])  # type: ignore[misc]
    return ddp.reducer.buckets


def test_buckets_follow_the_order_of_backward() -> None:
    first, second = run(rebuilt, 2)
    assert first == second
    order = [index for bucket in first for index in bucket]
    assert max(order.index(0), order.index(1)) < min(order.index(2), order.index(3))


class Branches(nn.Module):
    """One of two branches is used, one layer never."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList([nn.Linear(8, 4), nn.Linear(8, 4)])
        self.never = nn.Linear(8, 4)

    def forward(self, inputs: Tensor, branch: int) -> Tensor:
        return self.branches[branch](inputs)


def unused(rank: int, world_size: int, as_view: bool) -> None:
    torch.manual_seed(0)
    model = Branches()
    reference = copy.deepcopy(model)
    ddp = ucxring.DistributedDataParallel(
        model, find_unused_parameters=True, bucket_cap_mb=1e-5, gradient_as_bucket_view=as_view
    )
    for step in range(4):
        for micro in range(2):
            for each in range(world_size):
                inputs, targets = batch(2 * step + micro, each)
                output = reference(inputs, (each + step) % 2)
                (nn.functional.mse_loss(output, targets) / world_size).backward()
            inputs, targets = batch(2 * step + micro, rank)
            if micro == 0:
                with ddp.no_sync():
                    nn.functional.mse_loss(ddp(inputs, (rank + step) % 2), targets).backward()
            else:
                nn.functional.mse_loss(ddp(inputs, (rank + step) % 2), targets).backward()
        assert_gradients_match(model, reference)
        assert model.never.weight.grad is None
        model.zero_grad()
        reference.zero_grad()


@pytest.mark.parametrize("as_view", [False, True])
def test_parameters_unused_on_some_ranks(as_view: bool) -> None:
    run(unused, 2, as_view)


def output_left_out(rank: int, world_size: int) -> None:
    """With find_unused_parameters an output need not go into the loss."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = nn.ModuleList([nn.Linear(8, 4), nn.Linear(8, 4)])

        def forward(self, inputs: Tensor) -> dict[str, Tensor]:
            return {"first": self.heads[0](inputs), "second": self.heads[1](inputs)}

    ddp = ucxring.DistributedDataParallel(Two(), find_unused_parameters=True)
    for _ in range(2):
        ddp(batch(0, rank)[0])["first"].sum().backward()
        assert ddp.module.heads[1].weight.grad is None
        ddp.zero_grad()


def test_an_output_left_out_of_the_loss() -> None:
    run(output_left_out, 2)


def incomplete(rank: int, world_size: int, everywhere: bool, hook: bool = False) -> str:
    ddp = ucxring.DistributedDataParallel(Branches(), bucket_cap_mb=1e-5)
    if hook:
        ddp.register_comm_hook(None, bf16_hook)
    weights = [parameter.detach().clone() for parameter in ddp.parameters()]
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1.0)
    whole = sum(parameter.sum() * 0 for parameter in ddp.module.parameters())
    output = ddp(batch(0, rank)[0], 0).sum()
    loss = output if everywhere or rank == 1 else output + whole

    def step() -> None:
        loss.backward()
        optimizer.step()

    with pytest.raises(RuntimeError, match="the step must not be taken") as error:
        step()
    for parameter, weight in zip(ddp.parameters(), weights, strict=True):
        assert torch.equal(parameter, weight)
    return str(error.value)


def test_a_missing_gradient_is_an_error_before_the_step() -> None:
    for message in run(incomplete, 2, True):
        assert "branches.1.weight" in message
        assert "find_unused_parameters=True" in message


@pytest.mark.parametrize("hook", [False, True])
def test_a_gradient_missing_on_one_rank_is_an_error_on_all(hook: bool) -> None:
    # The loss of rank 0 leads to every parameter, but not through the wrapper's forward: that is enough.
    first, second = run(incomplete, 2, False, hook)
    assert "1 other rank(s)" in first
    assert "never.weight" in second


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.output = nn.Linear(4, 10, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.embedding(tokens))


class Reused(nn.Module):
    """One layer three times, plain or under a checkpoint."""

    def __init__(self, reentrant: bool | None = None) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Linear(8, 8)
        self.layer = nn.Linear(8, 8)
        self.reentrant = reentrant

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs)
        for _ in range(3):
            if self.reentrant is None:
                hidden = torch.tanh(self.layer(hidden))
            else:
                hidden = torch.tanh(checkpoint(self.layer, hidden, use_reentrant=self.reentrant))
        return hidden[:, :4]


def compare(rank: int, world_size: int, model: nn.Module, make_batch: Callable[[int, int], Any], **kwargs: Any) -> None:
    """Gradients of three steps against the mean of what single processes get."""
    reference = copy.deepcopy(model)
    ddp = ucxring.DistributedDataParallel(model, bucket_cap_mb=TINY_CAP_MB, **kwargs)
    for step in range(3):
        for each in range(world_size):
            (reference(make_batch(step, each)).square().mean() / world_size).backward()
        ddp(make_batch(step, rank)).square().mean().backward()
        assert_gradients_match(model, reference)
        model.zero_grad(set_to_none=step == 1)
        reference.zero_grad(set_to_none=step == 1)


def shared_parameters(rank: int, world_size: int) -> None:
    def tokens(step: int, each: int) -> Tensor:
        return torch.randint(10, (5,), generator=torch.Generator().manual_seed(10 * step + each))

    def inputs(step: int, each: int) -> Tensor:
        return batch(step, each)[0].requires_grad_()

    torch.manual_seed(2)
    for static in (False, True):
        compare(rank, world_size, Tied(), tokens, static_graph=static)
        compare(rank, world_size, Reused(), inputs, static_graph=static)
        compare(rank, world_size, Reused(reentrant=False), inputs, static_graph=static)
    compare(rank, world_size, Reused(reentrant=True), inputs, static_graph=True)
    with pytest.raises(RuntimeError, match=r"layer\.\w+ came again"):
        compare(rank, world_size, Reused(reentrant=True), inputs)


def test_shared_and_reused_parameters_and_checkpoints() -> None:
    run(shared_parameters, 2)


def checkpoint_around(rank: int, world_size: int) -> None:
    """The wrapper itself under a checkpoint: its forward runs again inside backward."""
    for reentrant in (False, True):
        reference = make_model()
        model = copy.deepcopy(reference)
        ddp = ucxring.DistributedDataParallel(model)
        for step in range(3):
            loss_of(reference, *whole_batch(step, world_size)).backward()
            inputs, targets = batch(step, rank)
            output = checkpoint(ddp, inputs.requires_grad_(), use_reentrant=reentrant)
            nn.functional.mse_loss(output, targets).backward()
            assert_gradients_match(model, reference)
            model.zero_grad()
            reference.zero_grad()


def test_a_checkpoint_around_the_wrapper() -> None:
    run(checkpoint_around, 2)


def static_graph_without_synchronisation(rank: int, world_size: int) -> None:
    train(rank, world_size, steps=3, micro=4, static_graph=True)


def test_static_graph_with_no_sync() -> None:
    run(static_graph_without_synchronisation, 2)


def several_forwards(rank: int, world_size: int) -> None:
    reference = make_model()
    model = copy.deepcopy(reference)
    ddp = ucxring.DistributedDataParallel(model)
    for step in range(3):
        (
            loss_of(reference, *whole_batch(step, world_size)) + loss_of(reference, *whole_batch(9, world_size))
        ).backward()
        (loss_of(ddp, *batch(step, rank)) + loss_of(ddp, *batch(9, rank))).backward()
        assert_gradients_match(model, reference)
        model.zero_grad()
        reference.zero_grad()
    first, second = loss_of(ddp, *batch(0, rank)), loss_of(ddp, *batch(1, rank))
    first.backward()
    with pytest.raises(ValueError, match="averaged already"):
        second.backward()
    model.zero_grad()
    train(rank, world_size)


def test_several_forwards_before_one_backward() -> None:
    run(several_forwards, 2)


def interrupted(rank: int, world_size: int) -> None:
    """An exception in backward, on all ranks, leaves a wrapper that works."""

    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, value: Tensor) -> Tensor:
            return value.clone()

        @staticmethod
        def backward(_ctx: Any, *_gradients: Any) -> Any:
            raise ArithmeticError("no gradient today")

    model = make_model()
    reference = copy.deepcopy(model)
    ddp = ucxring.DistributedDataParallel(model, bucket_cap_mb=1e-5)
    for step in range(3):
        handle = model[1].register_forward_hook(lambda _module, _inputs, output: Broken.apply(output))
        with pytest.raises(ArithmeticError):
            loss_of(ddp, *batch(step, rank)).backward()
        handle.remove()
        model.zero_grad()
        loss_of(ddp, *batch(step, rank)).backward()
        loss_of(reference, *whole_batch(step, world_size)).backward()
        assert_gradients_match(model, reference)
        model.zero_grad()
        reference.zero_grad()


def test_an_exception_in_backward_leaves_a_usable_wrapper() -> None:
    run(interrupted, 2)


def different(rank: int, world_size: int, kind: str) -> str:
    pairs: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module]]] = {
        "shape": (lambda: nn.Linear(4, 4), lambda: nn.Linear(4, 5)),
        "count": (lambda: nn.Sequential(nn.Linear(4, 4)), lambda: nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))),
        "dtype": (lambda: nn.Linear(4, 4), lambda: nn.Linear(4, 4).double()),
        "grad": (lambda: nn.Linear(4, 4), lambda: nn.Linear(4, 4).requires_grad_(False)),
    }
    with pytest.raises(ValueError, match="the model differs between ranks") as error:
        ucxring.DistributedDataParallel(pairs[kind][rank]())
    return str(error.value)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("shape", ["weight of shape [4, 4]", "rank 1 has weight of shape [5, 4]"]),
        ("count", ["only 2 parameters", "1.weight"]),
        ("dtype", ["Float", "Double"]),
        ("grad", ["weight of shape [4, 4], Float, without gradient"]),
    ],
)
def test_different_models_are_named_on_every_rank(kind: str, words: list[str]) -> None:
    messages = run(different, 2, kind)
    assert messages[0] == messages[1]
    for word in words:
        assert word in messages[0]


def buffers(rank: int, world_size: int, broadcast: bool) -> None:
    class Buffered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(8)
            self.layer = nn.Linear(8, 4)
            self.register_buffer("number", torch.tensor([rank]))
            self.register_buffer("flag", torch.tensor([rank == 0, True]))
            self.register_buffer("nothing", torch.empty(0))
            self.register_buffer("complex", torch.tensor([1j * rank, 2.0]))
            self.register_buffer("large", torch.full((1 << 19,), float(rank)))

        def forward(self, inputs: Tensor) -> Tensor:
            self.seen = [buffer.clone() for buffer in self.buffers()]
            return self.layer(self.norm(inputs))

    model = Buffered()
    ddp = ucxring.DistributedDataParallel(model, broadcast_buffers=broadcast)
    assert_same_bits_everywhere(list(model.buffers()))
    for step in range(3):
        model.number += rank
        (loss_of(ddp, *batch(2 * step, rank)) + loss_of(ddp, *batch(2 * step + 1, rank))).backward()
        if broadcast:
            assert_same_bits_everywhere(model.seen)
        else:
            assert int(model.number) == rank * (step + 1)


@pytest.mark.parametrize("broadcast", [False, True])
def test_buffers(broadcast: bool) -> None:
    run(buffers, 2, broadcast)


def sparse_gradients(rank: int, world_size: int) -> None:
    model = nn.Embedding(10, 3, sparse=True)
    ddp = ucxring.DistributedDataParallel(model)
    for _ in range(2):
        ddp(torch.tensor([rank, 5, 5])).sum().backward()
        assert model.weight.grad is not None
        assert model.weight.grad.is_sparse
        dense = model.weight.grad.to_dense()
        assert dense[:, 0].tolist() == [0.5, 0.5, 0, 0, 0, 2, 0, 0, 0, 0]
        model.zero_grad()
    padded = nn.Embedding(10, 3, sparse=True, padding_idx=0)
    ucxring.DistributedDataParallel(padded)(torch.tensor([0, 0] if rank == 0 else [1, 2])).sum().backward()
    assert padded.weight.grad is not None
    assert padded.weight.grad.to_dense()[:3, 0].tolist() == [0, 0.5, 0.5]


@pytest.mark.parametrize("backend", ["ucxring", "gloo"])
def test_sparse_gradients(backend: str) -> None:
    run(sparse_gradients, 2, backend=backend)


def mixed(rank: int, world_size: int) -> None:
    dtypes = [torch.float32, torch.bfloat16, torch.complex64, torch.float64, torch.float32, torch.float16]

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.ParameterList(torch.ones(5, dtype=dtype) * (1 + k) for k, dtype in enumerate(dtypes))
            self.weights.append(nn.Parameter(torch.ones(3, dtype=torch.float8_e5m2), requires_grad=False))

        def forward(self, factor: float) -> Tensor:
            return sum(((each * factor).abs() ** 2).sum().double() for each in list(self.weights)[:-1])  # type: ignore[return-value]

    model = Mixed()
    ddp = ucxring.DistributedDataParallel(model, bucket_cap_mb=1e-5)
    for _ in range(3):
        ddp(1.0 + rank).backward()
        for k, (parameter, dtype) in enumerate(zip(model.weights, dtypes, strict=False)):
            assert parameter.grad is not None
            assert parameter.grad.dtype == dtype
            mean_square = sum((1.0 + each) ** 2 for each in range(world_size)) / world_size
            torch.testing.assert_close(parameter.grad, torch.full((5,), 2 * mean_square * (1 + k), dtype=dtype))
        model.zero_grad()


@pytest.mark.parametrize("backend", ["ucxring", "gloo"])
def test_mixed_dtypes(backend: str) -> None:
    run(mixed, 2, backend=backend)


def uneven(rank: int, world_size: int, divide: bool, find_unused: bool) -> None:
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0.0)
    ddp = ucxring.DistributedDataParallel(
        nn.Sequential(model, nn.BatchNorm1d(1, affine=False)) if find_unused else model,
        find_unused_parameters=find_unused,
        broadcast_buffers=True,
    )
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1.0)
    counts = [3, 5]
    seen = []
    with ddp.join(divide_by_initial_world_size=divide):
        for _ in range(counts[rank]):
            (ddp.module[0] if find_unused else ddp.module).zero_grad()
            if find_unused:
                ddp(torch.ones(2, 1)).sum().backward()
            else:
                ddp(torch.ones(1, 1)).sum().backward()
                assert model.weight.grad is not None
                seen.append(float(model.weight.grad))
            optimizer.step()
    if not find_unused:
        late = 0.5 if divide else 1.0
        assert seen == [1.0, 1.0, 1.0, late, late][: counts[rank]]
        assert float(model.weight) == -(3 + 2 * late)
    assert_same_bits_everywhere(list(ddp.parameters()))


@pytest.mark.parametrize("find_unused", [False, True])
@pytest.mark.parametrize("divide", [False, True])
def test_uneven_inputs(divide: bool, find_unused: bool) -> None:
    run(uneven, 2, divide, find_unused)


def no_inputs_at_all(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    ddp = ucxring.DistributedDataParallel(make_model(), bucket_cap_mb=1e-5)
    with ddp.join():
        for step in range(3 if rank == 1 else 0):
            with ddp.no_sync():
                loss_of(ddp, *batch(step, rank)).backward()
            loss_of(ddp, *batch(step, rank)).backward()
    assert_same_bits_everywhere(list(ddp.parameters()))


def test_a_rank_without_any_inputs() -> None:
    run(no_inputs_at_all, 2)


def weighted(rank: int, world_size: int) -> tuple[float, float]:
    inputs = torch.tensor([[1.0], [2.0], [3.0]] if rank == 0 else [[8.0]])
    means = []
    for average in ("ranks", "samples"):
        model = nn.Linear(1, 1, bias=False)
        ddp = ucxring.DistributedDataParallel(model, average=average)  # type: ignore[arg-type]
        for _ in range(2):
            model.zero_grad()
            ddp(inputs).mean().backward()
        assert model.weight.grad is not None
        means.append(float(model.weight.grad))
    model = nn.Linear(1, 1, bias=False)
    ddp = ucxring.DistributedDataParallel(model, average="samples")
    for _ in range(2):  # in two micro-batches, of which rank 1 has one sample each
        model.zero_grad()
        with ddp.no_sync():
            (ddp(inputs[:2]).mean() * len(inputs[:2]) / (len(inputs) + rank)).backward()
        rest = inputs[2:] if rank == 0 else inputs
        (ddp(rest).mean() * len(rest) / (len(inputs) + rank)).backward()
    assert model.weight.grad is not None
    assert float(model.weight.grad) == pytest.approx((6 + 16) / 5)
    return means[0], means[1]


@pytest.mark.parametrize("backend", ["ucxring", "gloo"])
def test_average_over_ranks_or_samples(backend: str) -> None:
    for means in run(weighted, 2, backend=backend):
        assert means == (5.0, 3.5)


def bf16_hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    sent = bucket.buffer().to(torch.bfloat16) / dist.get_world_size()
    future = dist.all_reduce(sent, async_op=True).get_future()
    return future.then(lambda done: done.value()[0].to(bucket.buffer().dtype))


def hooks(rank: int, world_size: int, backend: str) -> None:
    group = dist.group.WORLD
    cases: list[tuple[object, Callable[..., Any], float]] = [
        (group, default_hooks.allreduce_hook, 1e-6),
        (group, default_hooks.fp16_compress_hook, 2e-3),
        (None, bf16_hook, 1e-2),
        (group, default_hooks.bf16_compress_hook, 1e-2),
        (
            powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=4, start_powerSGD_iter=2),
            powerSGD_hook.powerSGD_hook,
            1e-5,
        ),
        (None, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), 2e-3),
    ]
    for state, hook, tolerance in cases:
        model = make_model()
        reference = copy.deepcopy(model)
        ddp = ucxring.DistributedDataParallel(model, bucket_cap_mb=TINY_CAP_MB)
        ddp.register_comm_hook(state, hook)
        with pytest.raises(ValueError, match="already"):
            ddp.register_comm_hook(state, hook)
        for step in range(4):
            loss_of(reference, *whole_batch(step, world_size)).backward()
            loss_of(ddp, *batch(step, rank)).backward()
            for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
                assert ours.grad is not None
                assert theirs.grad is not None
                assert (ours.grad - theirs.grad).norm() <= tolerance * theirs.grad.norm() + 1e-7
            assert_same_bits_everywhere([each.grad for each in model.parameters() if each.grad is not None])
            model.zero_grad()
            reference.zero_grad()


@pytest.mark.parametrize("backend", ["ucxring", "gloo"])
def test_comm_hooks_of_torch(backend: str) -> None:
    run(hooks, 2, backend, backend=backend)


def raising_hook(rank: int, world_size: int) -> None:
    calls = []

    def hook(_state: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        calls.append(bucket.index())
        if len(calls) == 2:
            raise LookupError("the hook had enough")
        return default_hooks.allreduce_hook(dist.group.WORLD, bucket)  # type: ignore[arg-type]

    ddp = ucxring.DistributedDataParallel(make_model())
    ddp.register_comm_hook(None, hook)
    loss_of(ddp, *batch(0, rank)).backward()
    with pytest.raises((LookupError, RuntimeError), match="the hook had enough"):
        loss_of(ddp, *batch(1, rank)).backward()


def test_an_exception_of_a_hook_arrives() -> None:
    run(raising_hook, 2)


def against_torch(rank: int, world_size: int) -> None:
    """A convolutional network with everything usual: the same losses as under torch's wrapper."""
    losses = []
    for wrapper in (TorchDdp, ucxring.DistributedDataParallel):
        torch.manual_seed(5)
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)).to(
            memory_format=torch.channels_last
        )
        ddp = wrapper(model)
        optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-2)
        scaler = torch.amp.GradScaler("cpu")
        generator = torch.Generator().manual_seed(rank)
        row = []
        for _ in range(5):
            images = torch.randn(6, 1, 8, 8, generator=generator)
            labels = torch.randint(10, (6,), generator=generator)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(ddp(images), labels)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            row.append(float(loss))
        assert_same_bits_everywhere(list(ddp.parameters()))
        losses.append(row)
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_the_same_losses_as_under_torch() -> None:
    run(against_torch, 2)


def gradients_stay_in_their_buckets(rank: int, world_size: int) -> None:
    """What people do with gradients leaves them where they are reduced in place."""
    model = make_model()
    ddp = ucxring.DistributedDataParallel(model)
    places = []
    for step in range(4):
        loss_of(ddp, *batch(step, rank)).backward()
        nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
        places.append([parameter.grad.data_ptr() for parameter in model.parameters()])
        for parameter in model.parameters():
            parameter.grad.detach_()
        ddp.zero_grad(set_to_none=step == 2)
    assert places[1] == places[2] == places[3]  # after the first step they move, with the buckets


def test_gradients_stay_in_their_buckets() -> None:
    run(gradients_stay_in_their_buckets, 2)


def hundred_steps(rank: int, world_size: int) -> None:
    model = make_model()
    ddp = ucxring.DistributedDataParallel(model, bucket_cap_mb=TINY_CAP_MB)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-2)
    for step in range(100):
        loss_of(ddp, *batch(step, rank)).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert_same_bits_everywhere(list(model.parameters()))


def test_replicas_are_identical_after_a_hundred_steps() -> None:
    run(hundred_steps, 3)


def timings(rank: int, world_size: int, hook: bool) -> None:
    ddp = ucxring.DistributedDataParallel(make_model(), bucket_cap_mb=TINY_CAP_MB)
    if hook:
        ddp.register_comm_hook(None, bf16_hook)
    steps: list[Any] = []
    ddp.watch.steps_finished = steps.extend  # type: ignore[method-assign]
    for step in range(3):
        loss = loss_of(ddp, *batch(step, rank))
        ddp.reducer.annotate(100 + rank, 7)
        loss.backward()
    steps += ddp.reducer.take_timings()
    assert [each.step for each in steps] == [0, 1, 2]
    assert ddp.reducer.take_timings() == []
    for each in steps:
        assert each.forward <= each.backward <= each.computed <= each.finished
        assert len(each.buckets) == len(ddp.reducer.buckets)
        assert sum(bucket.bytes for bucket in each.buckets) == ddp.reducer.bucket_bytes
        assert all(each.backward <= bucket.started <= bucket.finished <= each.finished for bucket in each.buckets)
        assert [row[1:] for row in each.ranks] == [(100 + other, 7) for other in range(world_size)]
        assert all(row[0] > 0 for row in each.ranks)


@pytest.mark.parametrize("hook", [False, True])
@pytest.mark.parametrize(("world_size", "backend"), [(2, "ucxring"), (3, "ucxring"), (2, "gloo")])
def test_timings_and_notes_of_all_ranks(world_size: int, backend: str, hook: bool) -> None:
    run(timings, world_size, hook, backend=backend)


def watched(rank: int, world_size: int, folder: str) -> list[str]:
    """Every rank takes the same batch, and one weight of rank 1 changes: two warnings on rank 0."""
    model = make_model()
    ddp = ucxring.DistributedDataParallel(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(130):
            if step == 3 and rank == 1:
                model[0].weight.data[3, 2] += 1e-6
            loss_of(ddp, *batch(0, 0)).backward()
    report = str(ddp.report())
    assert "means per step" in report
    if rank == 0:
        ddp.trace(f"{folder}/trace.json")
        ddp.picture(f"{folder}/step.svg")
        assert json.loads(Path(f"{folder}/trace.json").read_text())["traceEvents"]
        assert Path(f"{folder}/step.svg").read_text().startswith("<?xml")
    return [str(each.message) for each in caught if issubclass(each.category, ucxring.ddp.DDPWarning)]


def test_the_watch_sees_the_same_batch_and_drift(tmp_path: Path) -> None:
    first, _ = run(watched, 2, str(tmp_path))
    assert sum("DistributedSampler" in each for each in first) == 1
    assert sum("0.weight" in each for each in first) == 1


def test_the_report_at_exit() -> None:
    program = """
import torch, torch.distributed as dist, ucxring
dist.init_process_group("ucxring", store=dist.HashStore(), rank=0, world_size=1)
kept, gone = (ucxring.DistributedDataParallel(torch.nn.Linear(4, 4)) for _ in range(2))
kept(torch.ones(2, 4)).sum().backward()
gone(torch.ones(2, 4)).sum().backward()
del gone
dist.destroy_process_group()
"""
    for value, expected in (("1", 2), ("0", 0)):
        environment = {**os.environ, "UCXRING_DDP_REPORT": value}
        result = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        assert result.stdout.count("ucxring DDP, rank 0 of 1") == expected


def forgets_backward(rank: int, world_size: int) -> None:
    ddp = ucxring.DistributedDataParallel(make_model())
    output = loss_of(ddp, *batch(0, rank))
    if rank == 0:
        output.backward()


def test_a_rank_that_never_calls_backward_ends_in_an_error() -> None:
    outcomes = Ranks(forgets_backward, 2, timeout_s=3.0).outcomes()
    assert outcomes[0].error is not None
    assert "rank 1" in outcomes[0].error[1]


def wrong_arguments(rank: int, world_size: int) -> None:
    with pytest.raises(ValueError, match="average is 'ranks' or 'samples'"):
        ucxring.DistributedDataParallel(make_model(), average="median")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one process drives one"):
        ucxring.DistributedDataParallel(make_model(), device_ids=[0, 1])
    with pytest.raises(ValueError, match="no parameter that requires a gradient"):
        ucxring.DistributedDataParallel(nn.ReLU())


def test_wrong_arguments() -> None:
    run(wrong_arguments, 1)
