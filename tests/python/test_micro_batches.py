"""Micro-batches: equal to one large batch, and one averaging per group."""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist
from ddp_training import WRAPPERS
from harness import run
from torch import nn

from ucxring.ddp.micro_batches import accumulate, split
from ucxring.ddp.watch import DDPWarning

WRAPPED = pytest.mark.parametrize("wrapper", WRAPPERS)
SAMPLES = 12  # per rank and step


class TwoTypes(nn.Module):
    """Parameters of two types, which no wrapper puts into one bucket."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4, dtype=torch.float64)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(inputs).relu().double()).float()


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return TwoTypes()


def batch(step: int, world_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    count = SAMPLES * world_size
    return torch.randn(count, 8, generator=generator), torch.randn(count, 4, generator=generator)


def shares(step: int, rank: int, world_size: int, sizes: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """A rank's share of a batch in micro-batches of these sizes."""
    mine = [tensor[rank * SAMPLES : (rank + 1) * SAMPLES] for tensor in batch(step, world_size)]
    return list(zip(*(tensor.split(sizes) for tensor in mine), strict=True))


@dataclass
class Counter:
    """Notes the averagings of gradients: the index of each bucket."""

    buckets: list[int] = field(default_factory=list)

    def hook(self, _: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        self.buckets.append(bucket.index())
        work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])


def wrap(wrapper: str, model: nn.Module) -> tuple[nn.Module, Counter]:
    counter = Counter()
    ddp = WRAPPERS[wrapper](model, bucket_cap_mb=0.0005)
    ddp.register_comm_hook(None, counter.hook)
    return ddp, counter


def gradients_equal_one_process(rank: int, world_size: int, wrapper: str) -> None:
    """Three optimizer steps each; every group averages each bucket once."""
    for sizes in ([12], [4, 4, 4], [3, 3, 3, 3], [5, 4, 2, 1]):
        reference = make_model()
        ddp, counter = wrap(wrapper, copy.deepcopy(reference))
        optimizers = [torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (reference, ddp)]
        for step in range(3):
            inputs, targets = batch(step, world_size)
            nn.functional.mse_loss(reference(inputs), targets).backward()
            for micro in accumulate(ddp, shares(step, rank, world_size, sizes)):
                x, y = micro
                micro.backward(nn.functional.mse_loss(ddp(x), y))
                if not micro.is_last:
                    assert not counter.buckets
            assert len(counter.buckets) > 1
            assert sorted(counter.buckets) == list(range(len(counter.buckets)))
            counter.buckets.clear()
            for ours, theirs in zip(ddp.parameters(), reference.parameters(), strict=True):
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-6, atol=1e-6)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()


@WRAPPED
def test_gradients_equal_one_process(wrapper: str) -> None:
    run(gradients_equal_one_process, 2, wrapper)


def groups_of_a_loader(rank: int, world_size: int, wrapper: str) -> None:
    """Eight micro-batches in groups of three: the last group has two."""
    reference = make_model()
    ddp, counter = wrap(wrapper, copy.deepcopy(reference))
    stream = [micro for step in range(2) for micro in shares(step, rank, world_size, [3, 3, 3, 3])]
    seen = []
    group: list[tuple[torch.Tensor, torch.Tensor]] = []
    for micro in accumulate(ddp, iter(stream), steps=3):
        group.append(tuple(micro))
        micro.backward(nn.functional.mse_loss(ddp(micro[0]), micro[1]))
        seen.append((micro.index, micro.steps, micro.is_last))
        if micro.is_last:
            x, y = (torch.cat(each) for each in zip(*group, strict=True))
            nn.functional.mse_loss(reference(x), y).backward()
            for ours, theirs in zip(ddp.parameters(), reference.parameters(), strict=True):
                dist.all_reduce(theirs.grad.div_(world_size))
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-6, atol=1e-6)
            ddp.zero_grad()
            reference.zero_grad()
            group.clear()
            counter.buckets.clear()
        else:
            assert not counter.buckets
    assert seen == [(0, 3, False), (1, 3, False), (2, 3, True)] * 2 + [(0, 2, False), (1, 2, True)]


def leaving_the_loop(rank: int, world_size: int, wrapper: str) -> None:
    """After a break or an exception the next backward communicates, also while the generator is held."""
    ddp, counter = wrap(wrapper, make_model())
    for way in ("break", "exception", "close"):
        micro_batches = accumulate(ddp, shares(0, rank, world_size, [4, 4, 4]))
        with pytest.raises(KeyError) if way == "exception" else nullcontext():
            leave_early(ddp, micro_batches, way)
        if way == "close":
            micro_batches.close()
        del micro_batches
        assert not counter.buckets
        ddp.zero_grad()
        (x, y), *_ = shares(0, rank, world_size, [12])
        nn.functional.mse_loss(ddp(x), y).backward()
        assert counter.buckets
        counter.buckets.clear()
        flat = torch.cat([parameter.grad.double().flatten() for parameter in ddp.parameters()])
        parts = [torch.empty_like(flat) for _ in range(world_size)]
        dist.all_gather(parts, flat)
        assert torch.equal(parts[0], parts[-1])


def leave_early(ddp: nn.Module, micro_batches: Iterator[Any], way: str) -> None:
    for micro in micro_batches:
        micro.backward(nn.functional.mse_loss(ddp(micro[0]), micro[1]))
        if way == "exception":
            raise KeyError
        break


def by_hand(rank: int, world_size: int) -> None:
    """The loop that docs/ddp.md shows for those who want no wrapper."""
    reference = make_model()
    model = copy.deepcopy(reference)
    group = shares(0, rank, world_size, [4, 4, 4])
    for inputs, targets in group:
        (nn.functional.mse_loss(model(inputs), targets) / len(group)).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= world_size
    inputs, targets = batch(0, world_size)
    nn.functional.mse_loss(reference(inputs), targets).backward()
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-6, atol=1e-6)


def groups_and_leaving(rank: int, world_size: int, wrapper: str) -> None:
    groups_of_a_loader(rank, world_size, wrapper)
    leaving_the_loop(rank, world_size, wrapper)
    by_hand(rank, world_size)


@WRAPPED
def test_groups_leaving_the_loop_and_by_hand(wrapper: str) -> None:
    run(groups_and_leaving, 2, wrapper)


def test_works_over_gloo() -> None:
    run(groups_of_a_loader, 2, "torch", backend="gloo")


class NoSync(nn.Linear):
    """A module that notes when it is called inside `no_sync`."""

    inside = False

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        self.inside = True
        try:
            yield
        finally:
            self.inside = False


def test_only_the_last_micro_batch_is_outside_of_no_sync() -> None:
    ddp = NoSync(2, 1)
    inside = []
    for micro in accumulate(ddp, [torch.ones(1, 2)] * 5, steps=2):
        inside.append(ddp.inside)
        micro.backward(ddp(micro.data).sum())
    assert inside == [True, False, True, False, False]
    with pytest.raises(KeyError):
        leave_early(ddp, accumulate(ddp, [(torch.ones(1, 2), torch.ones(1, 1))] * 3), "exception")
    assert not ddp.inside


def test_one_process_needs_no_wrapper_and_tokens_can_be_weighed() -> None:
    model = nn.Linear(2, 1, bias=False)
    data = [(torch.ones(2, 2), 1.0), (torch.full((2, 2), 4.0), 3.0)]
    for micro in accumulate(model, data, weigh=lambda each: each[1]):
        micro.backward(model(micro[0]).mean())
    assert model.weight.grad.tolist() == [[0.25 * 1 + 0.75 * 4] * 2]


def test_a_loss_that_is_not_scaled_is_warned_of_once() -> None:
    model = nn.Linear(2, 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for micro in accumulate(model, [torch.ones(1, 2)] * 4, steps=2):
            model(micro.data).sum().backward()
        for micro in accumulate(model, [torch.ones(1, 2)] * 4, steps=2):
            micro.scale(model(micro.data).sum()).backward()
    assert [each.category for each in caught] == [DDPWarning]
    assert caught[0].filename == __file__


def test_what_is_not_an_iterable_of_micro_batches() -> None:
    model = nn.Linear(2, 1)
    assert list(accumulate(model, [], steps=2)) == []
    with pytest.raises(TypeError, match="split"):
        accumulate(model, torch.ones(4, 2), steps=2)
    with pytest.raises(TypeError, match="split"):
        accumulate(model, {"x": torch.ones(4, 2)})
    with pytest.raises(ValueError, match="at least 1"):
        accumulate(model, [], steps=0)
    with pytest.raises(ValueError, match="mean"):
        next(accumulate(model, [torch.ones(0, 2)]))


class Pair(NamedTuple):
    x: torch.Tensor
    note: str


@dataclass
class Texts:
    ids: torch.Tensor
    words: list[str]


def test_split() -> None:
    x = torch.arange(14.0).view(7, 2)
    parts = split({"pair": Pair(x, "a"), "texts": [Texts(x[:, 0], list("abcdefg"))], "n": 3, "s": torch.tensor(1)}, 3)
    assert [len(part["pair"].x) for part in parts] == [3, 2, 2]
    assert torch.equal(torch.cat([part["pair"].x for part in parts]), x)
    assert [part["texts"][0].words for part in parts] == [["a", "b", "c"], ["d", "e"], ["f", "g"]]
    assert all(part["pair"].note == "a" and part["n"] == 3 and part["s"] == 1 for part in parts)
    assert isinstance(parts[0]["texts"][0], Texts)
    assert len(split(x, 100)) == 7
    assert split(list("abc"), 2) == [["a", "b"], ["c"]]
    assert parts[0]["pair"].x.data_ptr() == x.data_ptr()
    with pytest.raises(ValueError, match=r"\[3, 7\]"):
        split([x, x[:3]], 2)
    with pytest.raises(ValueError, match="no tensor"):
        split({"a": 1}, 2)
