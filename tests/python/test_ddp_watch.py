"""The watch of DistributedDataParallel: each warning when it should come, and not otherwise."""

from __future__ import annotations

import warnings

import pytest
import torch
from ddp_cluster import Cluster, norms
from torch import nn

from ucxring.ddp.watch import DDPWarning, Watch
from ucxring.ddp.watch.warner import warn


def test_a_healthy_training_is_silent() -> None:
    cluster = Cluster(3)
    for step in range(250):
        cluster.step([0.1, 0.11, 0.1], communication=0.03)
        for module in cluster.modules:
            nn.init.constant_(module.weight, float(step))
    cluster.silent()


@pytest.mark.parametrize("equal_steps", [1, 2, 8])
def test_the_same_batch_on_two_ranks(equal_steps: int) -> None:
    cluster = Cluster(3)
    for _ in range(20):
        cluster.step(
            batches=lambda rank, step: torch.full((3,), float(10 * step + (rank if step >= equal_steps else rank // 2)))
        )
    if equal_steps == 1:
        cluster.silent()
    else:
        cluster.warned("ranks 0 and 1 train on the same batches", "DistributedSampler", "set_epoch")


def test_batches_are_compared_in_the_first_steps_only() -> None:
    cluster = Cluster(batch_steps=3)
    for _ in range(20):
        cluster.step(batches=lambda rank, step: torch.full((3,), float(10 * step + (rank if step < 3 else 0))))
    cluster.silent()
    assert cluster.watches[0].forward_begins((torch.ones(3),), {}, True)[0] == 0


def test_batch_norm() -> None:
    Cluster(module=norms()).warned("BatchNorm is not synchronised: 1 normalise", "convert_sync_batchnorm")
    Cluster(1, norms()).silent()
    Cluster(module=norms().eval()).silent()
    Cluster(module=nn.SyncBatchNorm.convert_sync_batchnorm(norms())).silent()


@pytest.mark.parametrize(("slow", "warns"), [(0.13, True), (0.12, False)])
def test_stragglers(slow: float, warns: bool) -> None:
    cluster = Cluster(4)
    for step in range(40):
        evaluates = 5.0 if step % 10 == 5 else 0.0
        cluster.step([0.1 + evaluates, 0.1, slow, 0.1])
    if warns:
        cluster.warned("rank 2 needs 130.0 ms per step, 1.30 times the others", "data loading")
    else:
        cluster.silent()


def test_a_straggler_of_microseconds_is_noise() -> None:
    cluster = Cluster()
    for _ in range(30):
        cluster.step([0.0010, 0.0019], communication=0.0)
    cluster.silent()


@pytest.mark.parametrize(
    ("communication", "micro_batches", "warns"), [(0.05, 1, True), (0.04, 1, False), (0.05, 8, False)]
)
def test_communication_that_dominates(communication: float, micro_batches: int, warns: bool) -> None:
    cluster = Cluster()
    for _ in range(30):
        cluster.step(communication=communication, micro_batches=micro_batches)
    if warns:
        cluster.warned(
            "takes 33% of each step (50.0 of 150.0 ms)", "steps=3) instead of 1 brings it to about 14%", "bf16"
        )
    else:
        cluster.silent()


def forwards(watch: Watch, count: int, synchronised: bool = True) -> None:
    for _ in range(count):
        watch.steps_finished([])
        watch.forward_begins((torch.ones(2),), {}, synchronised)


def test_forwards_without_backward() -> None:
    cluster = Cluster()
    forwards(cluster.watches[1], 3)
    cluster.silent()
    forwards(cluster.watches[1], 20)
    assert [len(each) for each in cluster.messages] == [0, 1]
    for text in ("rank 1 ran 3 forwards", "loss.backward()", "no_grad"):
        assert text in cluster.messages[1][0]


def test_forwards_that_need_no_backward() -> None:
    cluster = Cluster()
    for watch, module in zip(cluster.watches, cluster.modules, strict=True):
        with torch.no_grad():
            forwards(watch, 10)
        forwards(watch, 10, synchronised=False)
        module.eval()
        forwards(watch, 10)
        module.train()
    for _ in range(4):
        for watch in cluster.watches:
            forwards(watch, 2)
        cluster.step()
    cluster.silent()


def test_warnings_point_at_the_program() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn("look")
        Watch(norms(), 0, 2)
    assert [each.category for each in caught] == [DDPWarning] * 2
    assert {each.filename for each in caught} == {__file__}
