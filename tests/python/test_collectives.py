"""Every collective, dtype and reduce operation on 1 to 4 ranks, with inputs whose results are exact."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness import run

SIZES = [0, 1, 2, 3, 5, 64, 1000, 70_000]
WORLD_SIZES = [1, 2, 3, 4]

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]
INTEGERS = [
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
]
COMPLEX = [torch.complex64, torch.complex128]
SUM, PRODUCT, MIN, MAX = dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX
BAND, BOR, BXOR, AVG = dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR, dist.ReduceOp.AVG


def pattern(rank: int, count: int) -> torch.Tensor:
    """Small numbers that differ by rank and position: sums and products of four are exact in every type."""
    return (torch.arange(count) + rank) % 2 + 1


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


def assert_same(actual: torch.Tensor, expected: torch.Tensor, what: object) -> None:
    assert actual.dtype == expected.dtype, what
    assert actual.shape == expected.shape, what
    assert torch.equal(as_bytes(actual), as_bytes(expected)), (what, actual[:8], expected[:8])


def fold(op: dist.ReduceOp, parts: list[torch.Tensor]) -> torch.Tensor:
    """What the reduction of int64 `parts` must give."""
    stacked = torch.stack(parts)
    if op == SUM:
        return stacked.sum(0)
    if op == PRODUCT:
        return stacked.prod(0)
    if op in (MIN, MAX):
        return stacked.amin(0) if op == MIN else stacked.amax(0)
    result = parts[0].clone()
    for part in parts[1:]:
        result = {BAND: torch.bitwise_and, BOR: torch.bitwise_or, BXOR: torch.bitwise_xor}[op](result, part)
    return result


def reduce_numbers(rank: int, world_size: int) -> None:
    for count in SIZES:
        parts = [pattern(each, count) for each in range(world_size)]
        for dtype in FLOATS + INTEGERS:
            if count == SIZES[-1] and dtype not in (torch.float32, torch.bfloat16, torch.int64):
                continue
            ops = [SUM, PRODUCT, MIN, MAX] + ([BAND, BOR, BXOR] if dtype in INTEGERS else [])
            for op in ops:
                tensor = parts[rank].to(dtype, copy=True)
                dist.all_reduce(tensor, op)
                assert_same(tensor, fold(op, parts).to(dtype), (op, dtype, count))
        for dtype in COMPLEX:
            tensor = torch.complex(parts[rank].double(), -parts[rank].double()).to(dtype)
            dist.all_reduce(tensor)
            total = fold(SUM, parts).double()
            assert_same(torch.view_as_real(tensor), torch.view_as_real(torch.complex(total, -total).to(dtype)), dtype)


def reduce_averages(rank: int, world_size: int) -> None:
    for dtype in FLOATS:
        tensor = torch.full((5,), 1.0).to(dtype)
        dist.all_reduce(tensor, AVG)
        assert_same(tensor, torch.full((5,), 1.0).to(dtype), dtype)
    for dtype in [torch.float64, torch.float32, torch.float16, torch.bfloat16]:
        tensor = torch.full((33,), 4 + 2 * rank - (world_size - 1), dtype=dtype)
        dist.all_reduce(tensor, AVG)
        assert_same(tensor, torch.full((33,), 4, dtype=dtype), dtype)
        tensor = torch.full((7,), 1, dtype=dtype)
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(2.0 * (rank + 1)))
        assert_same(tensor, torch.full((7,), world_size * (world_size + 1), dtype=dtype), dtype)
    factor = torch.tensor([0.5])
    tensor = torch.full((3,), 2.0)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
    assert_same(tensor, torch.full((3,), float(world_size)), "tensor factor")


def reduce_bools(rank: int, world_size: int) -> None:
    columns = [[True, False, True, False], [True, False, False, False], [True, True, False, False]]
    parts = [torch.tensor(columns[each % 3]) for each in range(world_size)]
    number = torch.stack(parts).to(torch.int64)
    results = {SUM: number.amax(0), MAX: number.amax(0), BOR: number.amax(0)}
    results |= {PRODUCT: number.amin(0), MIN: number.amin(0), BAND: number.amin(0)}
    for op, expected in results.items():
        tensor = parts[rank].clone()
        dist.all_reduce(tensor, op)
        assert_same(tensor, expected.to(torch.bool), op)


def reduce_wraps(rank: int, world_size: int) -> None:
    for dtype, value in [(torch.int8, 100), (torch.uint8, 200), (torch.int16, 30_000)]:
        tensor = torch.full((9,), value, dtype=dtype)
        dist.all_reduce(tensor)
        assert_same(tensor, torch.full((9,), value * world_size).to(dtype), dtype)
    tensor = torch.tensor([2**53 + 1 if rank == 0 else 0])
    dist.all_reduce(tensor)
    assert tensor.item() == 2**53 + 1


def refuse_what_has_no_meaning(rank: int, world_size: int) -> None:
    before = torch.full((4,), rank + 1)
    for tensor, op in [
        (before, AVG),
        (before.bool(), AVG),
        (before.float(), BAND),
        (before.float(), BXOR),
        (before.half(), BOR),
    ]:
        with pytest.raises((RuntimeError, TypeError, ValueError), match=r"(?i)average|bit_|avg"):
            dist.all_reduce(tensor, op)
    assert torch.equal(before, torch.full((4,), rank + 1))
    usable(world_size)


def usable(world_size: int) -> None:
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full((3,), float(world_size)))


def all_reductions(rank: int, world_size: int) -> None:
    reduce_numbers(rank, world_size)
    reduce_averages(rank, world_size)
    reduce_bools(rank, world_size)
    reduce_wraps(rank, world_size)
    refuse_what_has_no_meaning(rank, world_size)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_all_reduce(world_size: int) -> None:
    run(all_reductions, world_size)


def movable(rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    raw = ((torch.arange(count * dtype.itemsize) + rank * 7) % 2).to(torch.uint8)
    return raw.view(dtype)


def move_everything(rank: int, world_size: int) -> None:
    kinds = [*FLOATS, *INTEGERS, *COMPLEX, torch.bool, torch.complex32, torch.float8_e4m3fnuz, torch.float8_e8m0fnu]
    for dtype in kinds:
        for count in [0, 1, 7, 1000]:
            parts = [movable(each, count, dtype) for each in range(world_size)]
            for root in range(world_size):
                tensor = parts[rank].clone()
                dist.broadcast(tensor, root)
                assert_same(tensor, parts[root], ("broadcast", dtype, count))
            gathered = [torch.empty_like(parts[0]) for _ in range(world_size)]
            dist.all_gather(gathered, parts[rank])
            for each in range(world_size):
                assert_same(gathered[each], parts[each], ("all_gather", dtype, count))
            whole = torch.empty(world_size * count, dtype=dtype)
            dist.all_gather_into_tensor(whole, parts[rank])
            assert_same(whole, torch.cat(parts) if count else whole, ("all_gather_into_tensor", dtype, count))


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_movement(world_size: int) -> None:
    run(move_everything, world_size)


def scatter_reductions(rank: int, world_size: int) -> None:
    for dtype in [torch.float32, torch.bfloat16, torch.int32, torch.complex64]:
        for count in [0, 1, 5, 1000]:
            parts = [(torch.arange(world_size * count) % 3 + each).to(dtype) for each in range(world_size)]
            total = torch.stack(parts).sum(0).to(dtype)
            output = torch.empty(count, dtype=dtype)
            dist.reduce_scatter_tensor(output, parts[rank].clone())
            assert_same(output, total[rank * count : (rank + 1) * count], ("tensor", dtype, count))
            output = torch.empty(count, dtype=dtype)
            dist.reduce_scatter(output, list(parts[rank].clone().split(count)) if count else [output] * world_size)
            assert_same(output, total[rank * count : (rank + 1) * count], ("list", dtype, count))
    output = torch.empty(2)
    dist.reduce_scatter_tensor(output, torch.arange(2.0 * world_size) + 2 * rank, AVG)
    assert torch.equal(output, torch.tensor([2.0 * rank, 2.0 * rank + 1]) + (world_size - 1))


def coalesced(rank: int, world_size: int) -> None:
    tensors = [torch.full((1 + i % 64,), float(i + rank)) for i in range(100)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for i, tensor in enumerate(tensors):
        assert torch.equal(tensor, torch.full_like(tensor, world_size * i + sum(range(world_size)))), i
    outputs = [torch.empty(world_size * 3) for _ in range(20)]
    with dist._coalescing_manager():
        for i, output in enumerate(outputs):
            dist.all_gather_into_tensor(output, torch.full((3,), float(10 * rank + i)))
    for i, output in enumerate(outputs):
        assert torch.equal(output, torch.arange(world_size).repeat_interleave(3) * 10.0 + i)
    outputs = [torch.empty(2) for _ in range(20)]
    with dist._coalescing_manager():
        for i, output in enumerate(outputs):
            dist.reduce_scatter_tensor(output, torch.arange(2.0 * world_size) + i)
    for i, output in enumerate(outputs):
        assert torch.equal(output, (torch.tensor([2.0 * rank, 2.0 * rank + 1]) + i) * world_size)


def bit_equal(rank: int, world_size: int) -> list[bytes]:
    """Results on random data as bytes, which must not depend on the rank."""
    results = []
    for power in [0, 3, 6, 10, 14, 17]:
        for count in [2**power - 1, 2**power, 2**power + 1]:
            tensor = torch.randn(count, generator=torch.Generator().manual_seed(100 * power + rank))
            dist.all_reduce(tensor)
            results.append(as_bytes(tensor).numpy().tobytes())
    return results


def more_collectives(rank: int, world_size: int) -> list[bytes]:
    scatter_reductions(rank, world_size)
    coalesced(rank, world_size)
    dist.barrier()
    first = bit_equal(rank, world_size)
    assert bit_equal(rank, world_size) == first
    return first


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_scatter_coalesced_and_equal_bits(world_size: int) -> None:
    results = run(more_collectives, world_size)
    assert all(result == results[0] for result in results)


def wrong_arguments(rank: int, world_size: int) -> None:
    tensor = torch.ones(4)
    for message, call in {
        "root 7": lambda: dist.group.WORLD.broadcast([tensor], _broadcast_options(7)),
        "one tensor for each": lambda: dist.group.WORLD.allgather([[tensor]], [tensor]),
        "must have": lambda: dist.all_gather_into_tensor(torch.empty(4 * world_size - 1), tensor),
        "one tensor, got 2": lambda: dist.group.WORLD.allreduce([tensor, tensor]),
        "same dtype": lambda: dist.all_gather_into_tensor(torch.empty(4 * world_size, dtype=torch.int32), tensor),
        "PREMUL_SUM|premul": lambda: dist.all_reduce(torch.ones(3, dtype=torch.bool), dist._make_nccl_premul_sum(2.0)),
    }.items():
        with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
            call()
    usable(world_size)


def _broadcast_options(root: int) -> dist.BroadcastOptions:
    options = dist.BroadcastOptions()
    options.rootRank = root
    return options


def test_errors_leave_the_group_usable() -> None:
    run(wrong_arguments, 3)
