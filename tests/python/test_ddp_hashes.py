"""Hashes by which ranks notice equal batches and parameters that differ."""

from __future__ import annotations

import copy

import pytest
import torch
from ddp_cluster import Cluster
from torch import nn

from ucxring.ddp.watch.drift import ParameterHashes, windows
from ucxring.ddp.watch.hashes import SAMPLES, batch_hash


class Many(nn.Module):
    """Large and small parameters of several types, one of them not contiguous."""

    def __init__(self) -> None:
        super().__init__()
        self.large = nn.Parameter(torch.randn(300, 301))
        self.halves = nn.Parameter(torch.randn(77, dtype=torch.bfloat16))
        self.odd = nn.Parameter(torch.randn(3, 5, 7)[:, 1:4])
        self.turned = nn.Parameter(torch.randn(4, 6).t())
        self.bytes = nn.Parameter(torch.arange(5, dtype=torch.uint8), requires_grad=False)
        self.pairs = nn.Parameter(torch.randn(3, dtype=torch.complex64))
        self.empty = nn.Parameter(torch.empty(0))
        self.later = nn.parameter.UninitializedParameter()


@pytest.mark.parametrize("name", ["large", "halves", "odd", "turned", "bytes", "pairs"])
def test_one_changed_element_is_found_within_the_promised_steps(name: str) -> None:
    cluster = Cluster(3, Many(), parameter_steps=20)
    for _ in range(45):
        cluster.step()
    cluster.silent()
    parameter = dict(cluster.modules[2].named_parameters())[name].data
    parameter[(-1,) * parameter.dim()] += 1
    for _ in range(20 + 1):
        cluster.step()
    cluster.warned("rank 2 differs from the others in the parameters", name, "checkpoint")
    for _ in range(50):
        cluster.step()
    cluster.warned()


def test_two_ranks_that_differ_and_parameters_that_may() -> None:
    for limits, ignored in (({}, False), ({"parameter_steps": 0}, False), ({}, True)):
        cluster = Cluster(2, nn.Linear(2, 2), **limits)
        cluster.modules[1].bias.data.add_(1)
        for watch in cluster.watches:
            watch.expects_equal_parameters &= not ignored
        for _ in range(101):
            cluster.step()
        if limits or ignored:
            cluster.silent()
        else:
            cluster.warned("ranks 0 and 1 differ in the parameters weight and bias")


def test_windows_cover_every_byte_once() -> None:
    named = [(name, each) for name, each in Many().named_parameters() if name not in ("empty", "later")]
    for most in (1, 3, 5, 100):
        parts = windows(Many().named_parameters(), most)
        assert len(parts) <= most
        covered: dict[str, int] = {}
        for window in parts:
            for name, (_, first, last) in zip(window.names, window.parts, strict=True):
                assert covered.get(name, 0) == first
                covered[name] = last
        assert covered == {name: each.nbytes for name, each in named}


def test_hashes_of_parameters_are_sparse_in_time() -> None:
    hashes = ParameterHashes(nn.Linear(4, 4).named_parameters(), 100)
    values = [hashes.value(step) for step in range(300)]
    assert sum(value != 0 for value in values) == 3
    assert len({*values} - {0}) == 1
    assert ParameterHashes([], 100).value(0) == 0


def test_one_rank_hashes_nothing() -> None:
    cluster = Cluster(1)
    for _ in range(20):
        cluster.step(communication=1.0)
        assert cluster.watches[0].forward_begins((torch.ones(3),), {}, True) == (0, 0)
    cluster.silent()


def test_batch_hash() -> None:
    torch.manual_seed(0)
    images = torch.zeros(64, 1, 28, 28)
    images[:, :, 10:18, 10:18] = torch.rand(64, 1, 8, 8)
    others = images.roll(1, 0)
    variants = [
        images,
        others,
        images.bfloat16(),
        images.to(torch.float8_e4m3fn),
        images.view(torch.complex64),
        images.to(torch.uint16),
        images.to_sparse(),
        others.to_sparse(),
        (images > 0.5).to_sparse(),
        (others > 0.5).to_sparse(),
        images.view(64, -1),
        images.view(64, -1).t(),
        torch.nested.nested_tensor(list(images), layout=torch.jagged),
        {"x": images, "y": [torch.ones(3)]},
        (images, 1),
        (images, 2),
        (images, "text"),
    ]
    hashes = [batch_hash((each,), {}) for each in variants]
    assert len(set(hashes)) == len(hashes)
    assert all(0 < each < 1 << 20 for each in hashes)
    assert hashes == [batch_hash((copy.deepcopy(each),), {}) for each in variants]
    assert batch_hash((), {"x": images}) == hashes[0]
    assert batch_hash((3, "text", None), {}) == 0
    assert batch_hash((torch.tensor(1.0),), {}) != 0
    for unreadable in (torch.empty(0), torch.empty(3, device="meta"), torch.eye(3).to_sparse_csr()):
        assert batch_hash((unreadable,), {}) == 0


def test_batches_that_are_nearly_empty_are_told_apart() -> None:
    one, other = torch.zeros(50, 50_000, dtype=torch.int32), torch.zeros(50, 50_000, dtype=torch.int32)
    assert one.numel() > 1000 * SAMPLES
    one[3, 77], other[3, 77] = 1, 2
    assert batch_hash((one,), {}) != batch_hash((other,), {})
    assert batch_hash((one,), {}) == batch_hash((one.clone(),), {})
