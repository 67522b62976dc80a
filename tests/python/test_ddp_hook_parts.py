"""Parts of the comm hooks: codes, choice of the largest, order of second collectives, what is kept per bucket."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from harness import run
from torch.futures import Future

from ucxring.ddp.hooks.int8 import decode, encode, scales
from ucxring.ddp.hooks.ordered import OrderedSecond
from ucxring.ddp.hooks.per_bucket import PerBucket, Residuals
from ucxring.ddp.hooks.top_k import largest

BLOCK = 64


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_codes_are_off_by_half_a_step_at_most() -> None:
    values = random(3, 10 * BLOCK) * torch.logspace(-30, 30, 30).repeat_interleave(BLOCK).view(3, -1)
    decoded = decode(encode(values, BLOCK), BLOCK)
    steps = values.view(3, -1, BLOCK).abs().amax(2, keepdim=True) / 127
    assert ((decoded - values).view(3, -1, BLOCK).abs() <= 0.5001 * steps).all()
    assert not torch.equal(decoded, values)


def test_codes_of_extremes() -> None:
    for value in (0.0, 1e-45, -1e-38, 1e-36, 1.0, -3e38):
        message = encode(torch.full((1, BLOCK), value), BLOCK)
        assert scales(message, BLOCK).isfinite().all()
        torch.testing.assert_close(decode(message, BLOCK), torch.full((1, BLOCK), value), rtol=1e-6, atol=1e-36)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_codes_of_what_is_not_finite(bad: float) -> None:
    values = random(1, 3 * BLOCK)
    values[0, BLOCK + 5] = bad
    decoded = decode(encode(values, BLOCK), BLOCK).view(3, BLOCK)
    assert not decoded[1].isfinite().any()
    assert decoded[::2].isfinite().all()


def special(name: str, count: int) -> torch.Tensor:
    values = random(count, seed=3)
    if name == "not finite":
        values[1000], values[2000], values[3000] = math.nan, -math.inf, math.inf
    elif name == "mostly zero":
        values[20:] = 0
    elif name == "constant":
        values.fill_(-2)
    elif name == "all large ones outside the sample":
        values *= 1e-3
        values[1 : 40 * (count // 16384) : count // 16384] = 5
    return values


SPECIAL = ["not finite", "mostly zero", "constant", "all large ones outside the sample"]


@pytest.mark.parametrize(
    ("name", "count"), [("normal", 1), ("normal", 7), ("normal", 500_000), *((name, 500_000) for name in SPECIAL)]
)
def test_largest(name: str, count: int) -> None:
    values = special(name, count)
    wanted = math.ceil(count / 1000)
    chosen = largest(values, wanted)
    assert chosen.unique().numel() == wanted
    expected = values.abs().topk(wanted).values
    torch.testing.assert_close(
        values[chosen].abs().sort(descending=True).values, expected, equal_nan=True, rtol=0, atol=0
    )


class FakeBucket:
    def __init__(self, index: int, parameters: list[torch.Tensor]) -> None:
        self._index, self._parameters = index, parameters

    def index(self) -> int:
        return self._index

    def parameters(self) -> list[torch.Tensor]:
        return self._parameters


def test_a_bucket_with_other_parameters_begins_anew() -> None:
    a, b, c = (torch.zeros(3) for _ in range(3))
    kept: PerBucket[list[int]] = PerBucket()
    first = kept.get(FakeBucket(0, [a, b]), list)
    assert kept.get(FakeBucket(0, [a, b]), list) is first
    assert kept.get(FakeBucket(1, [c]), list) is not first
    swapped = kept.get(FakeBucket(0, [b, a]), list)  # as large as before, in another order
    assert swapped is not first
    assert kept.get(FakeBucket(0, [b]), list) is not swapped


def test_residuals_stay_in_a_step_that_is_not_finite() -> None:
    residuals = Residuals()
    bucket = FakeBucket(0, [torch.zeros(3)])
    residuals.get(bucket, lambda: torch.zeros(3))
    residuals.update(0, torch.full((3,), math.nan), torch.tensor(False))
    assert torch.equal(residuals.get(bucket, lambda: torch.ones(3)), torch.zeros(3))
    residuals.update(0, torch.full((3,), 2.0), torch.tensor(True))
    assert torch.equal(residuals.get(bucket, lambda: torch.ones(3)), torch.full((3,), 2.0))


class Buckets:
    """Buckets whose collectives are futures that the test completes."""

    def __init__(self) -> None:
        self.second = OrderedSecond(None)
        self.log: list[str] = []
        self.first = [Future() for _ in range(4)]
        self.then = [Future() for _ in range(4)]
        self.results = [self.follow(i) for i in range(4)]

    def follow(self, index: int) -> Future[torch.Tensor]:
        finish = lambda: torch.tensor(index)  # noqa: E731
        return self.second.follow(self.first[index], lambda: self.prepare(index), finish, torch.device("cpu"))

    def prepare(self, index: int) -> Callable[[], Future[Any]]:
        self.log.append(f"prepare {index}")
        if index == 1:
            raise KeyError("in prepare")
        return lambda: self.start(index)

    def start(self, index: int) -> Future[Any]:
        self.log.append(f"start {index}")
        if index == 2:
            raise KeyError("in start")
        return self.then[index]


def second_collectives(rank: int, world_size: int) -> None:
    buckets = Buckets()
    assert dist.get_process_group_ranks(buckets.second.group) == list(range(world_size))
    assert buckets.second.group is not dist.group.WORLD
    for index in (3, 1, 2):
        buckets.first[index].set_result(None)
    assert buckets.log == ["prepare 3", "prepare 1", "prepare 2"]
    buckets.first[0].set_result(None)
    assert buckets.log[3:] == ["prepare 0", "start 0", "start 2", "start 3"]
    assert not buckets.results[0].done()
    buckets.then[3].set_result(None)
    assert buckets.results[3].wait() == 3
    buckets.then[0].set_result(None)
    assert buckets.results[0].wait() == 0
    with pytest.raises(Exception, match="in prepare"):
        buckets.results[1].wait()
    with pytest.raises(Exception, match="in start"):
        buckets.results[2].wait()


def failed_first_collective(rank: int, world_size: int) -> None:
    buckets = Buckets()
    cause: Future[Any] = Future()
    buckets.first.append(cause.then(lambda _: 1 / 0))
    result = buckets.follow(4)
    for each in [cause, *buckets.first[:4]]:
        each.set_result(None)
    with pytest.raises(Exception, match="division by zero"):
        result.wait()
    assert "prepare 4" not in buckets.log


def ordering(rank: int, world_size: int) -> None:
    second_collectives(rank, world_size)
    failed_first_collective(rank, world_size)


@pytest.mark.parametrize("backend", ["ucxring", "gloo"])
def test_order_of_second_collectives(backend: str) -> None:
    run(ordering, 2, backend=backend)


def timeouts(rank: int, world_size: int) -> Any:
    group = OrderedSecond(None).group
    return group._get_backend(torch.device("cpu")).options._timeout.total_seconds()


def test_the_second_group_has_the_timeout_of_the_first() -> None:
    assert run(timeouts, 2, timeout_s=17) == [17.0, 17.0]
