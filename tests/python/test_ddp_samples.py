"""average="samples": which forwards count."""

from __future__ import annotations

import pytest
import torch
from harness import run
from torch import Tensor, nn

import ucxring


def make_wrapper() -> tuple[nn.Linear, ucxring.DistributedDataParallel]:
    model = nn.Linear(1, 1, bias=False)
    return model, ucxring.DistributedDataParallel(model, average="samples")


def rows(count: int, value: float) -> Tensor:
    return torch.full((count, 1), value)


def gradient(model: nn.Linear) -> float:
    assert model.weight.grad is not None
    return float(model.weight.grad)


def joined(rank: int, world_size: int) -> list[float]:
    model, ddp = make_wrapper()
    seen = []
    with ddp.join():
        for _ in range(3 if rank == 0 else 1):
            model.zero_grad()
            ddp(rows(3, 2.0 + 4 * rank)).mean().backward()
            seen.append(gradient(model))
    return seen


def test_a_rank_that_has_no_data_left_does_not_count() -> None:
    assert run(joined, 2) == [pytest.approx([4.0, 2.0, 2.0]), pytest.approx([4.0])]


def train(model: nn.Linear, ddp: ucxring.DistributedDataParallel, rank: int) -> float:
    """Two samples of 1 and six of 5: the mean over samples is 4."""
    model.zero_grad()
    ddp(rows(2 + 4 * rank, 1.0 + 4 * rank)).mean().backward()
    return gradient(model)


def without_backward(rank: int, world_size: int) -> None:
    model, ddp = make_wrapper()
    for _ in range(2):
        kept = ddp(rows(1 + 8 * rank, 3.0))  # for logging
        assert train(model, ddp, rank) == pytest.approx(4.0)
        with ddp.no_sync():
            ddp(rows(1 + 8 * rank, 3.0))
        assert train(model, ddp, rank) == pytest.approx(4.0)
    del kept


def test_forwards_without_backward_do_not_count() -> None:
    run(without_backward, 2)


def thrown_away(rank: int, world_size: int) -> None:
    model, ddp = make_wrapper()
    with ddp.no_sync():
        ddp(rows(1 + 8 * rank, 3.0)).mean().backward()
    assert train(model, ddp, rank) == pytest.approx(4.0)  # it begins with zero_grad
    with ddp.no_sync():
        torch.autograd.grad(ddp(rows(1 + 8 * rank, 3.0)).mean(), model.weight)
    assert train(model, ddp, rank) == pytest.approx(4.0)


def test_gradients_that_were_thrown_away_do_not_count() -> None:
    run(thrown_away, 2)
