"""SyncBatchNorm over several ranks against BatchNorm over the whole batch in one process."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.distributed as dist
from harness import run
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ucxring.ddp.sync_batch_norm import SyncBatchNorm, convert_sync_batchnorm

CHANNELS = 5
TOLERANCES = {torch.float32: 1e-6, torch.float64: 1e-10, torch.bfloat16: 2e-2, torch.float16: 2e-3}


@contextmanager
def counted_collectives() -> Iterator[dict[str, int]]:
    """Counts the calls of the collectives that the layer may use."""
    counts = {"all_gather": 0, "all_reduce": 0}
    originals = {name: getattr(dist, name) for name in counts}

    def counting(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return originals[name](*args, **kwargs)

        return call

    for name in counts:
        setattr(dist, name, counting(name))
    try:
        yield counts
    finally:
        for name, original in originals.items():
            setattr(dist, name, original)


def random(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def norm_of(dimensions: int, **kwargs: Any) -> nn.Module:
    layer = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[dimensions](CHANNELS, **kwargs)
    if layer.affine:
        with torch.no_grad():
            layer.weight.copy_(1 + 0.3 * random(1, CHANNELS))
            layer.bias.copy_(random(2, CHANNELS))
    return layer


def assert_near(ours: torch.Tensor | None, theirs: torch.Tensor | None, dtype: torch.dtype) -> None:
    if theirs is None:
        assert ours is None
        return
    scale = max(1.0, theirs.double().abs().max().item()) if theirs.numel() > 0 else 1.0
    torch.testing.assert_close(ours.double(), theirs.double(), rtol=0, atol=TOLERANCES[dtype] * scale)


def compare(
    rank: int,
    sizes: list[int],
    shape: tuple[int, ...] = (4, 3),
    dtype: torch.dtype = torch.float64,
    offset: float = 0.0,
    channels_last: bool = False,
    parameter_dtype: torch.dtype | None = None,
    **kwargs: Any,
) -> None:
    """Three steps with `sizes` samples on the ranks: outputs, all gradients, running statistics; then evaluation."""
    parameter_dtype = parameter_dtype or dtype
    reference_dtype = torch.promote_types(dtype, torch.float32)
    reference = norm_of(len(shape) + 2, **kwargs).to(parameter_dtype)
    layer = convert_sync_batchnorm(copy.deepcopy(reference))
    assert isinstance(layer, SyncBatchNorm)
    reference = reference.to(reference_dtype)
    for step in range(3):
        whole = (random(10 + step, sum(sizes), CHANNELS, *shape) + offset * (1 + step)).to(dtype)
        towards = random(20 + step, *whole.shape, dtype=dtype)
        mine = whole.split(sizes)[rank].clone()
        if channels_last:
            mine = mine.to(memory_format=torch.channels_last)
        mine.requires_grad_()
        theirs = whole.to(reference_dtype).requires_grad_()
        for each, inputs, target in ((layer, mine, towards.split(sizes)[rank]), (reference, theirs, towards)):
            each.zero_grad()
            output = each(inputs)
            output.backward(target.to(output.dtype))
            each.output = output.detach()
        assert layer.output.dtype == dtype
        assert mine.grad.dtype == dtype
        assert_near(layer.output, reference.output.split(sizes)[rank], dtype)
        assert_near(mine.grad, theirs.grad.split(sizes)[rank], dtype)
        for ours, expected in zip(layer.parameters(), reference.parameters(), strict=True):
            total = ours.grad.double()
            dist.all_reduce(total)
            assert_near(total, expected.grad, dtype)
        assert_near(layer.running_mean, reference.running_mean, dtype)
        assert_near(layer.running_var, reference.running_var, dtype)
        assert layer.num_batches_tracked == reference.num_batches_tracked
    layer.eval(), reference.eval()
    assert_near(layer(whole), reference(whole.to(reference_dtype)), dtype)


def shapes(rank: int, world_size: int) -> None:
    sizes = [3, 5, 2][:world_size]
    for shape in [(), (7,), (4, 3), (2, 3, 2)]:
        for dtype in (torch.float32, torch.float64):
            compare(rank, sizes, shape, dtype)
    compare(rank, sizes, dtype=torch.float32, channels_last=True)


def variants(rank: int, world_size: int) -> None:
    sizes = [3, 5, 2][:world_size]
    for kwargs in (
        {"affine": False},
        {"momentum": None},
        {"track_running_stats": False},
        {"eps": 0.1, "momentum": 0.7},
    ):
        compare(rank, sizes, **kwargs)
    compare(rank, [0, 4, 3][:world_size])
    compare(rank, [4, 0, 0][:world_size], dtype=torch.float32)
    compare(rank, [1] * world_size, ())


def half_types(rank: int, world_size: int) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        compare(rank, [3, 5], dtype=dtype, parameter_dtype=torch.float32)
        compare(rank, [3, 5], dtype=dtype)


@pytest.mark.parametrize("world_size", [2, 3])
def test_equals_one_process(world_size: int) -> None:
    run(shapes, world_size)
    run(variants, world_size)


def test_half_types() -> None:
    run(half_types, 2)


def statistics_far_from_zero(rank: int, world_size: int) -> None:
    """A sum of squares would lose the variance: 1 beside a squared mean of 10¹² (float32: 10⁶, means apart by 10³)."""
    layer = SyncBatchNorm(1, affine=False, momentum=1.0)
    values = random(5, 64, 1, dtype=torch.float64)
    for dtype, offset, apart, tolerance in ((torch.float64, 1e6, 0.0, 1e-8), (torch.float32, 1e3, 1e3, 1e-4)):
        whole = (values + offset + apart * (torch.arange(64) >= 32).view(-1, 1)).to(dtype)
        layer.to(dtype)(whole.chunk(world_size)[rank])
        torch.testing.assert_close(layer.running_var, whole.var(0), rtol=tolerance, atol=0)


def collectives(rank: int, world_size: int) -> None:
    layer = SyncBatchNorm(CHANNELS)
    for needs_grad in (True, False):
        inputs = random(rank, 4, CHANNELS, dtype=torch.float32).requires_grad_(needs_grad)
        with counted_collectives() as counts:
            outputs = layer(inputs)
            assert counts == {"all_gather": 1, "all_reduce": 0}
            outputs.square().sum().backward()
            assert counts == {"all_gather": 1, "all_reduce": int(needs_grad)}
        assert (inputs.grad is not None) == needs_grad
        assert layer.weight.grad is not None
    with counted_collectives() as counts:
        layer.eval()(inputs)
        untracked = SyncBatchNorm(CHANNELS, track_running_stats=False, affine=False).eval()
        local = nn.functional.batch_norm(inputs, None, None, training=True)
        assert torch.equal(untracked(inputs), local)
        assert counts == {"all_gather": 0, "all_reduce": 0}


def frozen_parameters(rank: int, world_size: int) -> None:
    layer = SyncBatchNorm(CHANNELS)
    layer.weight.requires_grad_(False)
    inputs = random(rank, 4, CHANNELS, dtype=torch.float32).requires_grad_()
    layer(inputs).square().sum().backward()
    assert layer.weight.grad is None
    assert layer.bias.grad is not None
    assert inputs.grad is not None


def wrong_inputs(rank: int, world_size: int) -> None:
    layer = SyncBatchNorm(CHANNELS)
    with pytest.raises(ValueError, match=r"expected \(samples, 5, \.\.\.\), got \(4, 3\)"):
        layer(torch.ones(4, 3))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        layer(torch.ones(int(rank == 0), CHANNELS))
    layer(torch.ones(0, CHANNELS))  # empty on all ranks: nothing is counted
    assert layer.num_batches_tracked == 0
    assert torch.equal(layer.running_mean, torch.zeros(CHANNELS))


def groups(rank: int, world_size: int) -> None:
    """A group of one rank normalises alone."""
    alone = [dist.new_group([each]) for each in range(world_size)][rank]
    inputs = random(rank, 4, CHANNELS, dtype=torch.float32)
    expected = nn.BatchNorm1d(CHANNELS)(inputs)
    assert torch.equal(SyncBatchNorm(CHANNELS, process_group=alone)(inputs), expected)
    assert not torch.allclose(SyncBatchNorm(CHANNELS)(inputs), expected)


def behaviour(rank: int, world_size: int) -> None:
    statistics_far_from_zero(rank, world_size)
    collectives(rank, world_size)
    frozen_parameters(rank, world_size)
    wrong_inputs(rank, world_size)
    groups(rank, world_size)


def test_behaviour() -> None:
    run(behaviour, 2)


def training(rank: int, world_size: int) -> None:
    """Four steps of SGD of a small network with DistributedDataParallel."""
    torch.manual_seed(0)
    net = [nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6)]
    reference = nn.Sequential(*net).double()
    model = DistributedDataParallel(convert_sync_batchnorm(copy.deepcopy(reference)))
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (model, reference)]
    for step in range(4):
        whole, targets = random(step, 8, 2, 6, 6), random(50 + step, 8, 6)
        mine, my_targets = whole.chunk(world_size)[rank], targets.chunk(world_size)[rank]
        for each, inputs, target in ((model, mine, my_targets), (reference, whole, targets)):
            each.zero_grad()
            nn.functional.mse_loss(each(inputs), target).backward()
        for optimizer in optimizers:
            optimizer.step()
    ours, theirs = model.module.state_dict(), reference.state_dict()
    assert list(ours) == list(theirs)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=1e-10)


def test_training_with_ddp() -> None:
    run(training, 2)


def test_without_a_group_it_is_batch_norm() -> None:
    inputs = random(0, 4, CHANNELS, dtype=torch.float32)
    assert torch.equal(SyncBatchNorm(CHANNELS)(inputs), nn.BatchNorm1d(CHANNELS)(inputs))


def test_convert() -> None:
    shared = nn.BatchNorm2d(3, eps=0.1, momentum=None, dtype=torch.float64).eval()
    shared.qconfig = "a configuration"
    shared.weight.requires_grad_(False)
    plain = nn.BatchNorm1d(4, affine=False, track_running_stats=False)
    model = nn.ModuleDict({"a": nn.Sequential(shared, nn.ReLU()), "b": nn.Sequential(nn.Sequential(shared), plain)})
    model["torchs"] = nn.SyncBatchNorm(2)
    model["instance"] = nn.InstanceNorm1d(2)
    before = model.state_dict(keep_vars=True)
    assert convert_sync_batchnorm(model) is model
    new = model["a"][0]
    assert model["b"][0][0] is new
    assert type(new) is SyncBatchNorm
    assert type(model["b"][1]) is SyncBatchNorm
    assert type(model["torchs"]) is SyncBatchNorm
    assert type(model["instance"]) is nn.InstanceNorm1d
    after = model.state_dict(keep_vars=True)
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)
    assert (new.eps, new.momentum, new.affine, new.training, new.qconfig) == (0.1, None, True, False, "a configuration")
    assert not new.weight.requires_grad
    assert model["b"][1].affine is False
    assert model["b"][1].running_mean is None


def test_convert_a_layer_itself() -> None:
    layer = nn.BatchNorm1d(4)
    new = convert_sync_batchnorm(layer)
    assert new.weight is layer.weight
    assert convert_sync_batchnorm(new) is new
    with pytest.raises(ValueError, match="lazy"):
        convert_sync_batchnorm(nn.LazyBatchNorm1d())
