"""Splitting batches to a limit of memory."""

import copy

import pytest
import torch
import torch.distributed as dist
from harness import run
from test_micro_batches import WRAPPED, wrap
from torch import nn

from ucxring.ddp.memory import PeakMemory, peak_bytes
from ucxring.ddp.micro_batch_planner import MicroBatchPlanner
from ucxring.ddp.micro_batches import accumulate


def test_peak_memory_counts_what_is_alive() -> None:
    before = torch.zeros(1000)
    with PeakMemory() as memory:
        first = before + 1
        view = first.view(10, 100)
        second = first * 2
        del first
        assert memory.current == 8000
        del view, second
        assert (memory.current, memory.peak) == (0, 8000)
        before.add_(1)
        assert memory.peak == 8000


def loss_of(model: nn.Module, data: torch.Tensor) -> torch.Tensor:
    return model(data).square().mean()


def deep_model() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(4)]
    return nn.Sequential(*layers, nn.BatchNorm1d(64), nn.Dropout())


def test_a_trial_leaves_no_trace() -> None:
    model = deep_model()
    lstm = nn.LSTM(8, 8)
    state, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    parameters = [*model.parameters(), *lstm.parameters()]
    for parameter in parameters:
        parameter.register_hook(lambda _: pytest.fail("a hook ran"))
    small, large = (peak_bytes(model, loss_of, torch.ones(count, 64)) for count in (8, 64))
    assert large > 4 * 4 * 64 * 64
    assert small < large
    assert peak_bytes(lstm, lambda m, x: m(x)[0].sum(), torch.ones(3, 2, 8)) > 0
    assert [id(each) for each in parameters] == [id(each) for each in [*model.parameters(), *lstm.parameters()]]
    assert [id(each) for each in lstm.parameters()] == [id(each) for each in lstm._flat_weights]
    assert all(parameter.grad is None for parameter in parameters)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_the_planner_keeps_to_the_limit() -> None:
    model = deep_model()
    data = torch.randn(100, 64)
    whole = peak_bytes(model, loss_of, data)
    one_part = MicroBatchPlanner(model, loss_of, whole)
    assert len(one_part.split(data)) == 1
    planner = MicroBatchPlanner(model, loss_of, whole // 3)
    parts = planner.split(data)
    assert planner.plan is not None
    assert len(parts) == planner.plan.steps > 3
    assert max(peak_bytes(model, loss_of, part) for part in parts) == planner.plan.bytes <= whole // 3
    assert peak_bytes(model, loss_of, data[: -(-100 // (planner.plan.steps - 1))]) > 0.9 * (whole // 3)
    assert [len(part) for part in planner.split(data[:10])] == [10]
    with pytest.raises(MemoryError, match="single sample"):
        MicroBatchPlanner(model.eval(), loss_of, 100).split(data)
    with pytest.raises(ValueError, match="positive"):
        MicroBatchPlanner(model, loss_of, 0)


def wide_loss(model: nn.Module, data: torch.Tensor) -> torch.Tensor:
    """Rank 1's samples take more memory, as longer texts do."""
    return model(data.repeat(1 + 2 * dist.get_rank(), 1)).square().mean()


def ranks_agree(rank: int, world_size: int, wrapper: str) -> tuple[int, int, float]:
    ddp, counter = wrap(wrapper, deep_model()[:4])
    data = torch.randn(48, 64, generator=torch.Generator().manual_seed(rank))
    limit = peak_bytes(ddp.module, wide_loss, data[:24]) // (1 + rank)
    planner = MicroBatchPlanner(ddp, wide_loss, limit)
    parts = planner.split(data)
    assert not counter.buckets
    assert all(peak_bytes(ddp.module, wide_loss, part) <= limit for part in parts)
    for micro in accumulate(ddp, parts):
        micro.backward(wide_loss(ddp, micro.data))
    assert counter.buckets
    ours = [parameter.grad.clone() for parameter in ddp.parameters()]
    ddp.zero_grad()
    wide_loss(ddp, data).backward()
    for gradient, parameter in zip(ours, ddp.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-6, atol=1e-6)
    with pytest.raises(MemoryError, match="at least one rank"):
        MicroBatchPlanner(ddp, wide_loss, 1 << 40 if rank == 0 else 1000).split(data)
    dist.barrier()
    return len(parts), planner.plan.steps, float(ours[0].sum())


@WRAPPED
def test_ranks_agree_on_the_number_of_micro_batches(wrapper: str) -> None:
    first, second = run(ranks_agree, 2, wrapper)
    assert first == second
    assert first[0] >= 4
