"""Collectives that take lists of tensors: wherever these lie, of equal and of unequal sizes, at once and async."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
from harness import run
from test_collectives import usable

OUTSIDE = -1.0  # what lies between and around the tensors of a list

# Tensors of the given sizes, and the memory that they are views of, or nothing.
Arranged = tuple[list[torch.Tensor], list[torch.Tensor]]


def chunks(sizes: list[int]) -> Arranged:
    base = torch.full((sum(sizes) + 2,), OUTSIDE)
    return list(base[1:-1].split(sizes)), [base]


def backwards(sizes: list[int]) -> Arranged:
    parts, bases = chunks(sizes[::-1])
    return parts[::-1], bases


def with_gaps(sizes: list[int]) -> Arranged:
    parts, bases = chunks([each for size in sizes for each in (size, 1)])
    return parts[::2], bases


def columns(sizes: list[int]) -> Arranged:
    bases = [torch.full((size, 2), OUTSIDE) for size in sizes]
    return [base[:, 0] for base in bases], bases


def apart(sizes: list[int]) -> Arranged:
    return [torch.full((size,), OUTSIDE) for size in sizes], []


ARRANGEMENTS = [chunks, backwards, with_gaps, columns, apart]


def sizes_of(world_size: int) -> Iterator[list[int]]:
    yield [4] * world_size
    yield [each + 1 for each in range(world_size)]
    yield [3 * (each % 2) for each in range(world_size)]


def value(source: int, target: int, size: int) -> torch.Tensor:
    return torch.arange(float(size)) % 1000 + 100 * source + 10 * target


def fill(parts: list[torch.Tensor], values: list[torch.Tensor]) -> list[torch.Tensor]:
    for part, each in zip(parts, values, strict=True):
        part.copy_(each)
    return parts


def check(what: object, arranged: Arranged, values: list[torch.Tensor]) -> None:
    """That the tensors have these values, and nothing beside them was written."""
    parts, bases = arranged
    for part, each in zip(parts, values, strict=True):
        assert torch.equal(part, each), (what, part, each)
        part.fill_(0)
    outside = sum(int((base == OUTSIDE).sum()) for base in bases)
    assert outside == sum(base.numel() for base in bases) - (sum(each.numel() for each in values) if bases else 0), what


def rooted(rank: int, arrange: Callable[[list[int]], Arranged], sizes: list[int], is_async: bool) -> None:
    world_size = len(sizes)
    what = (arrange.__name__, sizes, is_async)
    for root in range(world_size):
        given = [value(each, root, sizes[each]) for each in range(world_size)]
        arranged = arrange(sizes)
        work = dist.gather(given[rank], arranged[0] if rank == root else None, root, async_op=is_async)
        if work is not None:
            work.wait()
        if rank == root:
            check(("gather", *what), arranged, given)
        given = [value(root, each, sizes[each]) for each in range(world_size)]
        arranged = arrange(sizes)
        parts = fill(arranged[0], given) if rank == root else None
        output = torch.empty(sizes[rank])
        work = dist.scatter(output, parts, root, async_op=is_async)
        if work is not None:
            work.wait()
        assert torch.equal(output, given[rank]), ("scatter", *what)
        if rank == root:
            check(("scatter: inputs", *what), arranged, given)


def all_to_all_ranks(rank: int, arrange: Callable[[list[int]], Arranged], sizes: list[int], is_async: bool) -> None:
    world_size = len(sizes)
    everyone = range(world_size)
    what = (arrange.__name__, sizes, is_async)
    given = [value(each, 0, sizes[each]) for each in everyone]
    arranged = arrange(sizes)
    work = dist.all_gather(arranged[0], given[rank], async_op=is_async)
    if work is not None:
        work.wait()
    check(("all_gather", *what), arranged, given)

    given = [value(rank, each, sizes[each]) for each in everyone]
    arranged = arrange(sizes)
    output = torch.empty(sizes[rank])
    work = dist.reduce_scatter(output, fill(arranged[0], given), async_op=is_async)
    if work is not None:
        work.wait()
    assert torch.equal(output, sum(value(each, rank, sizes[rank]) for each in everyone)), ("reduce_scatter", *what)
    check(("reduce_scatter: inputs", *what), arranged, given)

    inputs, outputs = arrange(sizes), arrange([sizes[rank]] * world_size)
    work = dist.all_to_all(outputs[0], fill(inputs[0], given), async_op=is_async)
    if work is not None:
        work.wait()
    check(("all_to_all", *what), outputs, [value(each, rank, sizes[rank]) for each in everyone])
    check(("all_to_all: inputs", *what), inputs, given)


def in_place(rank: int, world_size: int) -> None:
    """Lists that the other tensor of the call lies among, also where another rank's part belongs."""
    everyone = range(world_size)
    given = [value(each, 0, 4) for each in everyone]
    for place in (rank, (rank + 1) % world_size):
        arranged = chunks([4] * world_size)
        dist.all_gather(arranged[0], arranged[0][place].copy_(given[rank]))
        check(("all_gather", place), arranged, given)
        arranged = chunks([4] * world_size)
        own = arranged[0][place].copy_(given[rank])
        dist.gather(own, arranged[0] if rank == 0 else None)
        if rank == 0:
            check(("gather", place), arranged, given)
        arranged = chunks([4] * world_size)
        own = fill(arranged[0], [value(0, each, 4) for each in everyone])[place]
        dist.scatter(own, arranged[0] if rank == 0 else None)
        assert torch.equal(own, value(0, rank, 4)), ("scatter", place)
        arranged = chunks([4] * world_size)
        own = fill(arranged[0], [value(rank, each, 4) for each in everyone])[place]
        dist.reduce_scatter(own, arranged[0])
        assert torch.equal(own, sum(value(each, rank, 4) for each in everyone)), ("reduce_scatter", place)


def copied_on_write(rank: int, world_size: int) -> None:
    """Tensors whose memory is shared until somebody writes: the other owner must not see what a collective writes."""
    given = [value(each, 0, 4) for each in range(world_size)]
    original = torch.full((4 * world_size,), OUTSIDE)
    lazy = torch._lazy_clone(original)
    dist.all_gather(list(lazy.chunk(world_size)), given[rank])
    assert torch.equal(lazy, torch.cat(given))
    assert bool((original == OUTSIDE).all())
    source = torch.cat(given)
    lazy = torch._lazy_clone(source)
    output = torch.empty(4)
    dist.scatter(output, list(lazy.chunk(world_size)) if rank == 0 else None)
    assert torch.equal(output, given[rank])
    assert torch.equal(source, torch.cat(given))


def everything(rank: int, world_size: int) -> None:
    for arrange in ARRANGEMENTS:
        for sizes in sizes_of(world_size):
            for is_async in (False, True):
                rooted(rank, arrange, sizes, is_async)
                all_to_all_ranks(rank, arrange, sizes, is_async)
    for arrange in (chunks, apart):
        several_lanes = [300_000 + each for each in range(world_size)]
        rooted(rank, arrange, several_lanes, is_async=False)
        all_to_all_ranks(rank, arrange, several_lanes, is_async=False)
    in_place(rank, world_size)
    copied_on_write(rank, world_size)
    usable(world_size)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_lists(world_size: int) -> None:
    run(everything, world_size)


def disagree(rank: int, world_size: int, operation: str) -> str:
    """Rank 1 has another size than the root's list has for it. The ranks see it in this call or in the next."""
    own = torch.zeros(5 if rank == 1 else 4)
    parts = list(torch.zeros(4 * world_size).chunk(world_size)) if rank == 0 else None

    def call() -> None:
        if operation == "gather":
            dist.gather(own, parts)
        else:
            dist.scatter(own, parts)
        dist.barrier()

    with pytest.raises(dist.DistBackendError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("operation", ["gather", "scatter"])
def test_sizes_that_differ(operation: str) -> None:
    sender, sent, receiver, expected = (1, 20, 0, 16) if operation == "gather" else (0, 16, 1, 20)
    for text in run(disagree, 3, operation):
        assert f"called {operation}(float32, own sizes, root 0), but rank {sender} sent" in text
        assert f"rank {sender} sent a message of {sent} bytes where rank {receiver} expects {expected}" in text


def overtaking(rank: int, world_size: int) -> None:
    """Operations in flight whose messages overtake each other all end, also when nothing arrives after the last one."""
    groups = [dist.new_group(list(range(world_size))) for _ in range(2)]
    for step in range(400):
        small = [torch.full((size,), float(rank + step)) for size in (1, 300, 40, 5000)]
        outputs = [torch.empty(world_size * tensor.numel()) for tensor in small]
        works = []
        for index, (output, tensor) in enumerate(zip(outputs, small, strict=True)):
            group = groups[index % 2]
            works.append(dist.all_gather_into_tensor(output, tensor, group=group, async_op=True))
            works.append(dist.all_reduce(tensor.clone(), group=group, async_op=True))
        for work in works:
            work.get_future().wait()
        for output, tensor in zip(outputs, small, strict=True):
            assert float(output.sum()) == tensor.numel() * sum(other + step for other in range(world_size))


def test_messages_that_overtake_each_other() -> None:
    run(overtaking, 2, timeout_s=30.0)
