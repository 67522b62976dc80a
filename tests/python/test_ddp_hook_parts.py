"""Parts of the comm hooks: choice of the largest, two collectives per bucket, what is kept per bucket."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from harness import run
from torch.futures import Future

from ucxring.ddp.hooks.per_bucket import PerBucket, keep_if
from ucxring.ddp.hooks.top_k import largest
from ucxring.ddp.hooks.two_phases import TwoPhases


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


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


def test_errors_stay_in_a_step_that_is_not_finite() -> None:
    kept = torch.zeros(3)
    keep_if(torch.tensor(False), kept, torch.full((3,), math.nan))
    assert torch.equal(kept, torch.zeros(3))
    keep_if(torch.tensor(True), kept, torch.full((3,), 2.0))
    assert torch.equal(kept, torch.full((3,), 2.0))


class Buckets:
    """Buckets whose collectives are futures that the test completes."""

    def __init__(self) -> None:
        self.phases = TwoPhases(None)
        self.log: list[str] = []
        self.first = [Future() for _ in range(5)]
        self.second = [Future() for _ in range(5)]
        self.failure: Future[Any] = Future()
        self.first[4] = self.failure.then(lambda _: 1 / 0)
        self.results = [self.run(i) for i in range(5)]

    def run(self, index: int) -> Future[torch.Tensor]:
        return self.phases.run(
            lambda: self.start("first", index),
            lambda: self.prepare(index),
            lambda: torch.tensor(index),
            torch.device("cpu"),
        )

    def prepare(self, index: int) -> Callable[[], Future[Any]]:
        self.log.append(f"prepare {index}")
        if index == 0:  # meanwhile another thread learns that the others' first collectives are done
            for each in self.first[1:4]:
                each.set_result(None)
            self.failure.set_result(None)
        if index == 1:
            raise KeyError("in prepare")
        return lambda: self.start("second", index)

    def start(self, which: str, index: int) -> Future[Any]:
        self.log.append(f"{which} {index}")
        if (which, index) == ("second", 2):
            raise KeyError("in start")
        return getattr(self, which)[index]


def two_phases(rank: int, world_size: int) -> None:
    buckets = Buckets()
    assert buckets.log == ["first 0"]
    buckets.first[0].set_result(None)
    firsts = [entry for entry in buckets.log if entry.startswith("first")]
    seconds = [entry for entry in buckets.log if entry.startswith("second")]
    assert firsts == [f"first {index}" for index in range(5)]
    assert seconds == ["second 0", "second 2", "second 3"]
    assert buckets.log.index("prepare 3") < buckets.log.index("second 0")
    assert "prepare 4" not in buckets.log
    assert not buckets.results[0].done()
    for index in (3, 0):
        buckets.second[index].set_result(None)
        assert buckets.results[index].wait() == index
    for index, message in ((1, "in prepare"), (2, "in start"), (4, "division by zero")):
        with pytest.raises(Exception, match=message):
            buckets.results[index].wait()


def private_groups(rank: int, world_size: int) -> Any:
    """The ranks and the timeout of the group; two different ones, not the one given."""
    phases = TwoPhases(None)
    groups = [phases.first_group, phases.second_group, dist.group.WORLD]
    assert len(set(groups)) == 3
    assert all(dist.get_process_group_ranks(group) == list(range(world_size)) for group in groups)
    return [group._get_backend(torch.device("cpu")).options._timeout.total_seconds() for group in groups]


@pytest.mark.parametrize("backend", ["ucxring", "gloo"])
def test_two_phases(backend: str) -> None:
    run(two_phases, 2, backend=backend)
    assert run(private_groups, 2, timeout_s=17, backend=backend) == [[17.0] * 3] * 2
