"""ucxring.DistributedDataParallel against one process that sees all samples: training, buckets, hooks, timings."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ddp_training import (
    TINY_CAP_MB,
    CountedGroup,
    assert_same_bits_everywhere,
    batch,
    bf16_hook,
    loss_of,
    make_model,
    train,
    whole_batch,
)
from harness import run
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel as TorchDdp

import ucxring


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


def notes_beside_sparse_gradients(rank: int, world_size: int) -> None:
    """Whatever the last bucket is, the ranks' notes travel."""
    ddp = ucxring.DistributedDataParallel(nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 4)))
    ddp.watch.steps_finished = lambda _timings: None  # type: ignore[method-assign]
    loss = ddp(torch.tensor([rank, 3])).sum()
    ddp.reducer.annotate(5 + rank, 0)
    loss.backward()
    assert [row[1] for row in ddp.reducer.take_timings()[0].ranks] == [5, 6]


def test_notes_beside_sparse_gradients() -> None:
    run(notes_beside_sparse_gradients, 2)


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
