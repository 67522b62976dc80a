"""What models, buffers, dtypes and inputs may be, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from ddp_training import (
    assert_same_bits_everywhere,
    batch,
    loss_of,
    make_model,
)
from harness import run
from torch import Tensor, nn

import ucxring


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


def wrong_arguments(rank: int, world_size: int) -> None:
    with pytest.raises(ValueError, match="average is 'ranks' or 'samples'"):
        ucxring.DistributedDataParallel(make_model(), average="median")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one process drives one"):
        ucxring.DistributedDataParallel(make_model(), device_ids=[0, 1])
    with pytest.raises(ValueError, match="no parameter that requires a gradient"):
        ucxring.DistributedDataParallel(nn.ReLU())


def test_wrong_arguments() -> None:
    run(wrong_arguments, 1)
