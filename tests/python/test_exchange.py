"""Collectives with a root, all_to_all and uneven lists: values, types, layouts and errors on 2 and 3 ranks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from harness import run
from test_collectives import AVG, COMPLEX, FLOATS, INTEGERS, MAX, PRODUCT, assert_same, movable, usable

MOVABLE = [*FLOATS, *INTEGERS, *COMPLEX, torch.bool, torch.complex32, torch.float8_e4m3fnuz, torch.float8_e8m0fnu]
SIZES = [0, 1, 5, 1000, 70_001]


def finish(work: dist.Work | None) -> None:
    if work is not None:
        work.wait()


def reduces(rank: int, world_size: int) -> None:
    for root in range(world_size):
        for count in SIZES:
            for is_async in (False, True):
                mine = torch.arange(count, dtype=torch.float32) % 97 + rank
                before = mine.clone()
                finish(dist.reduce(mine, root, async_op=is_async))
                total = (torch.arange(count) % 97 * world_size + sum(range(world_size))).float()
                assert_same(mine, total if rank == root else before, (root, count))
    for dtype in (torch.bfloat16, torch.int8, torch.float64):
        mine = torch.full((9,), rank + 1, dtype=dtype)
        dist.reduce(mine, 1, PRODUCT)
        assert mine[0] == (torch.arange(1, world_size + 1).prod() if rank == 1 else rank + 1)
    mine = torch.full((5,), float(2 * rank))
    dist.reduce(mine, 1, AVG)
    assert mine[0] == (world_size - 1 if rank == 1 else 2 * rank)
    base = torch.arange(12.0).view(3, 4) + rank
    before = base.clone()
    dist.reduce(base[:, 1], 0)
    assert torch.equal(base[:, ::2], before[:, ::2])
    expected = before[:, 1] * world_size + sum(range(world_size)) if rank == 0 else before[:, 1]
    assert torch.equal(base[:, 1], expected)


def reduces_complex(rank: int, world_size: int) -> None:
    """The three routes agree: torch shows complex numbers as pairs in all but dist.reduce."""
    own = torch.full((3,), complex(1 + rank, 2 - rank), dtype=torch.complex64)
    total = sum(complex(1 + each, 2 - each) for each in range(world_size))
    mine = own.clone()
    dist.reduce(mine, 0)
    assert torch.equal(mine, torch.full_like(mine, total) if rank == 0 else own)
    mine = own.clone()
    dist.reduce(mine, 0, AVG)
    if rank == 0:
        torch.testing.assert_close(mine, torch.full_like(mine, total / world_size))
    output = torch.empty(1, dtype=torch.complex64)
    dist.reduce_scatter_tensor(output, own[:1].repeat(world_size))
    assert output.item() == total
    mine = own.clone()
    with pytest.raises((RuntimeError, ValueError), match=r"(?i)max"):
        dist.reduce(mine, 0, MAX)
    assert torch.equal(mine, own)


def averages(rank: int, world_size: int) -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        mine = torch.arange(2 * world_size, dtype=dtype) + 2 * rank
        right = torch.tensor([2 * rank, 2 * rank + 1], dtype=dtype) + (world_size - 1)
        output = torch.empty(2, dtype=dtype)
        dist.reduce_scatter_tensor(output, mine, AVG)
        assert torch.equal(output, right)
        output = torch.empty(2, dtype=dtype)
        dist.reduce_scatter(output, list(mine.chunk(world_size)), AVG)
        assert torch.equal(output, right)
        outputs = [torch.empty(2, dtype=dtype) for _ in range(3)]
        with dist._coalescing_manager():
            for output in outputs:
                dist.reduce_scatter_tensor(output, mine, AVG)
        assert all(torch.equal(output, right) for output in outputs)
    for wrong in (torch.int64, torch.bool):
        whole = torch.ones(world_size).to(wrong)
        with pytest.raises((ValueError, RuntimeError), match=r"(?i)average"):
            dist.reduce_scatter_tensor(torch.empty(1, dtype=wrong), whole, AVG)


def not_a_number(rank: int, world_size: int) -> None:
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for op in (dist.ReduceOp.MIN, MAX, dist.ReduceOp.SUM):
            mine = torch.ones(40, dtype=dtype)
            mine[3 + rank] = torch.nan
            dist.all_reduce(mine, op)
            assert torch.equal(mine.isnan().nonzero().flatten(), torch.arange(3, 3 + world_size)), (dtype, op)


def gathers_and_scatters(rank: int, world_size: int) -> None:
    for dtype in MOVABLE:
        for count in SIZES[:4] if dtype != torch.float32 else SIZES:
            parts = [movable(each, count, dtype) for each in range(world_size)]
            root = count % world_size
            gathered = [torch.empty_like(parts[0]) for _ in range(world_size)]
            finish(dist.gather(parts[rank], gathered if rank == root else None, root, async_op=count == 5))
            if rank == root:
                for each in range(world_size):
                    assert_same(gathered[each], parts[each], ("gather", dtype, count))
            output = torch.empty_like(parts[0])
            finish(dist.scatter(output, parts if rank == root else None, root, async_op=count == 5))
            assert_same(output, parts[rank], ("scatter", dtype, count))
    columns = torch.arange(6.0).view(3, 2) + 10 * rank
    gathered = [torch.zeros(2, 3).t() for _ in range(world_size)]
    dist.gather(columns.t().contiguous().t(), gathered if rank == 0 else None)
    assert rank != 0 or torch.equal(gathered[-1], torch.arange(6.0).view(3, 2) + 10 * (world_size - 1))
    target = torch.zeros(3, 2)
    dist.scatter(
        target[:, 1], [torch.tensor([each + 1.0]).expand(3) for each in range(world_size)] if rank == 0 else None
    )
    assert torch.equal(target, torch.tensor([[0.0, rank + 1.0]]).expand(3, 2))


def uneven_lists(rank: int, world_size: int) -> None:
    own = torch.full((rank + 1,), float(rank))
    for is_async in (False, True):
        parts = [torch.empty(each + 1) for each in range(world_size)]
        finish(dist.all_gather(parts, own, async_op=is_async))
        assert all(torch.equal(part, torch.full((each + 1,), float(each))) for each, part in enumerate(parts))
        parts = [torch.empty(each + 1) for each in range(world_size)]
        finish(dist.gather(own, parts if rank == 1 else None, 1, async_op=is_async))
        if rank == 1:
            assert all(torch.equal(part, torch.full((each + 1,), float(each))) for each, part in enumerate(parts))
        output = torch.empty(rank + 1)
        inputs = [torch.full((each + 1,), 7.0 * each) for each in range(world_size)]
        finish(dist.scatter(output, inputs if rank == 0 else None, 0, async_op=is_async))
        assert torch.equal(output, torch.full((rank + 1,), 7.0 * rank))
        output = torch.empty(rank + 1)
        inputs = [torch.full((each + 1,), float(rank + each)) for each in range(world_size)]
        finish(dist.reduce_scatter(output, inputs, async_op=is_async))
        assert torch.equal(output, torch.full((rank + 1,), float(world_size * rank + sum(range(world_size)))))
    twice = torch.empty(2)
    dist.all_gather([twice] * world_size, torch.full((2,), float(rank)))
    assert torch.equal(twice, torch.full((2,), world_size - 1.0))
    empty = torch.empty(0)
    parts = [torch.empty(0) if each else torch.empty(3) for each in range(world_size)]
    dist.all_gather(parts, torch.ones(3) if rank == 0 else empty)
    assert torch.equal(parts[0], torch.ones(3))


def exchanges(rank: int, world_size: int) -> None:
    for dtype in MOVABLE:
        for count in (0, 1, 5, 1000):
            inputs = torch.cat([movable(rank + 3 * each, count, dtype).view(torch.uint8) for each in range(world_size)])
            output = torch.empty_like(inputs)
            finish(dist.all_to_all_single(output.view(dtype), inputs.view(dtype), async_op=count == 5))
            parts = [movable(each + 3 * rank, count, dtype).view(torch.uint8) for each in range(world_size)]
            assert torch.equal(output, torch.cat(parts)), (dtype, count)
            outputs = [torch.empty(count, dtype=dtype) for _ in range(world_size)]
            finish(dist.all_to_all(outputs, list(inputs.view(dtype).chunk(world_size)) if count else outputs))
            assert torch.equal(torch.cat(outputs).view(torch.uint8), torch.cat(parts)), (dtype, count)
    # Rank r sends (j + r) % 3 rows to rank j, and the list form tensors of different lengths.
    sends = [(each + rank) % 3 for each in range(world_size)]
    inputs = torch.cat([torch.full((sends[each], 2), 100.0 * rank + each) for each in range(world_size)])
    receives = [(each + rank) % 3 for each in range(world_size)]
    output = torch.empty(sum(receives), 2)
    dist.all_to_all_single(output, inputs, receives, sends)
    assert torch.equal(output, torch.cat([torch.full((receives[i], 2), 100.0 * i + rank) for i in range(world_size)]))
    outputs = [torch.empty(rank + 1) for _ in range(world_size)]
    dist.all_to_all(outputs, [torch.full((each + 1,), 10.0 * rank + each) for each in range(world_size)])
    assert all(torch.equal(part, torch.full((rank + 1,), 10.0 * i + rank)) for i, part in enumerate(outputs))
    nothing = torch.empty(0, 3)
    dist.all_to_all_single(nothing.clone(), nothing, [0] * world_size, [0] * world_size)


def coalesced_gathers(rank: int, world_size: int) -> None:
    inputs = [torch.full((3,), float(rank)), torch.full((2, 2), 10.0 + rank), torch.empty(0)]
    outputs = [[torch.empty_like(tensor) for tensor in inputs] for _ in range(world_size)]
    finish(dist.all_gather_coalesced(outputs, inputs, async_op=True))
    for each, of_rank in enumerate(outputs):
        assert torch.equal(of_rank[0], torch.full((3,), float(each)))
        assert torch.equal(of_rank[1], torch.full((2, 2), 10.0 + each))


def sparse_sums(rank: int, world_size: int) -> None:
    for is_async in (False, True):
        indices = torch.tensor([[rank, 5, 5]])
        values = torch.ones(3, 2) * (rank + 1)
        tensor = torch.sparse_coo_tensor(indices, values, (8, 2))
        finish(dist.all_reduce(tensor, async_op=is_async))
        expected = torch.zeros(8, 2)
        for each in range(world_size):
            expected[each] += each + 1
            expected[5] += 2 * (each + 1)
        assert torch.equal(tensor.to_dense(), expected)
    empty = torch.sparse_coo_tensor(torch.empty(2, 0, dtype=torch.int64), torch.empty(0), (3, 4))
    filled = torch.sparse_coo_tensor(torch.tensor([[1], [2]]), torch.tensor([4.0]), (3, 4))
    tensor = filled if rank == 0 else empty
    dist.all_reduce(tensor)
    assert tensor.to_dense()[1, 2] == 4
    assert tensor.to_dense().sum() == 4
    with pytest.raises(ValueError, match="SUM"):
        dist.all_reduce(filled, MAX)
    other = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.tensor([4.0]), (3 + rank,))
    with pytest.raises(ValueError, match="another shape"):
        dist.all_reduce(other)


def wrong_arguments(rank: int, world_size: int) -> None:
    tensor = torch.ones(4)
    lists = [torch.empty(4) for _ in range(world_size)]
    short = lists[:-1]
    other = [torch.empty(4, dtype=torch.int32)] * world_size
    longer = [torch.empty(5) for _ in range(world_size)]
    group = dist.group.WORLD
    calls: dict[str, Callable[[], object]] = {
        "root 7": lambda: group.reduce([tensor], _options(dist.ReduceOptions, 7)),
        "gather: root -1": lambda: group.gather([lists], [tensor], _options(dist.GatherOptions, -1)),
        "scatter: root 9": lambda: group.scatter([tensor], [lists], _options(dist.ScatterOptions, 9)),
        "one tensor for each": lambda: group.gather([short], [tensor], _options(dist.GatherOptions, rank)),
        "input list needs": lambda: group.scatter([tensor], [short], _options(dist.ScatterOptions, rank)),
        "only the root": lambda: group.gather([lists], [tensor], _options(dist.GatherOptions, (rank + 1) % world_size)),
        "same dtype": lambda: group.gather([other], [tensor], _options(dist.GatherOptions, rank)),
        "scatter: tensor": lambda: group.scatter([tensor], [longer], _options(dist.ScatterOptions, rank)),
        "split evenly": lambda: dist.all_to_all_single(torch.empty(world_size + 1), torch.empty(world_size + 1)),
        "add up to": lambda: dist.all_to_all_single(lists[0], tensor, [1] * world_size, [2] * world_size),
        "one size": lambda: dist.all_to_all_single(torch.empty(world_size), torch.empty(2 * world_size)),
        "negative": lambda: dist.all_to_all_single(lists[0], tensor, [-1] + [1] * (world_size - 1), [1] * world_size),
        "share memory": lambda: dist.reduce(torch.ones(1).expand(3), rank),
        "all_gather: the output": lambda: dist.all_gather(longer, tensor),
        "reduce_scatter: the input": lambda: dist.reduce_scatter(tensor, longer),
        "(?i)average": lambda: dist.reduce(torch.ones(3, dtype=torch.int32), 0, AVG),
    }
    for message, call in calls.items():
        with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
            call()
    assert torch.equal(tensor, torch.ones(4))
    usable(world_size)


def _options(kind: type, root: int) -> object:
    options = kind()
    options.rootRank = root
    return options


def everything(rank: int, world_size: int) -> None:
    for part in (
        averages,
        not_a_number,
        reduces,
        reduces_complex,
        gathers_and_scatters,
        uneven_lists,
        exchanges,
        coalesced_gathers,
        sparse_sums,
    ):
        part(rank, world_size)
    wrong_arguments(rank, world_size)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_exchange(world_size: int) -> None:
    run(everything if world_size > 1 else alone, world_size)


def alone(rank: int, world_size: int) -> None:
    """Every operation on a group of one rank is the identity."""
    tensor = torch.arange(3.0)
    dist.reduce(tensor, 0)
    parts = [torch.empty(3)]
    dist.gather(tensor, parts)
    output = torch.empty(3)
    dist.scatter(output, parts)
    assert torch.equal(output, torch.arange(3.0))
    exchanged = torch.empty(3)
    dist.all_to_all_single(exchanged, output)
    dist.all_to_all(parts, [exchanged])
    assert torch.equal(parts[0], torch.arange(3.0))
    dist.barrier()
