"""Shapes and strides: views, expanded, empty, misaligned and aliased tensors; kinds of tensors that are refused."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness import run
from test_collectives import usable


def base_of(rank: int) -> torch.Tensor:
    return torch.arange(12.0).view(3, 4) + 100 * rank


def strided_in_and_out(rank: int, world_size: int) -> None:
    ranks = sum(range(world_size))
    for view in (lambda t: t[:, 1], lambda t: t.t(), lambda t: t[::2, ::3], lambda t: t.unsqueeze(0).transpose(0, 2)):
        for is_async in (False, True):
            base = base_of(rank)
            expected = base.clone()
            view(expected).copy_(view(base_of(0)) * world_size + 100 * ranks)
            work = dist.all_reduce(view(base), async_op=is_async)
            if work is not None:
                work.wait()
            assert torch.equal(base, expected)
            base = base_of(rank)
            expected = base.clone()
            view(expected).copy_(view(base_of(1)))
            work = dist.broadcast(view(base), 1, async_op=is_async)
            if work is not None:
                work.wait()
            assert torch.equal(base, expected)
        parts = [torch.zeros(12).view(3, 4) for _ in range(world_size)]
        dist.all_gather([view(part) for part in parts], view(base_of(rank)))
        for each, part in enumerate(parts):
            expected = torch.zeros(3, 4)
            view(expected).copy_(view(base_of(each)))
            assert torch.equal(part, expected)


def different_strides(rank: int, world_size: int) -> None:
    image = (torch.arange(2 * 3 * 4 * 5.0) * (rank + 1)).view(2, 3, 4, 5)
    mine = image.contiguous(memory_format=torch.channels_last) if rank == 0 else image.clone()
    dist.all_reduce(mine)
    assert torch.equal(mine, torch.arange(2 * 3 * 4 * 5.0).view(2, 3, 4, 5) * (world_size * (world_size + 1) / 2))
    whole = torch.empty(4, world_size * 2).t()
    dist.all_gather_into_tensor(whole, torch.full((2, 4), float(rank)))
    assert torch.equal(whole, torch.arange(float(world_size)).repeat_interleave(2)[:, None].expand(-1, 4))
    output = torch.zeros(2, 2)[:, 0]
    dist.reduce_scatter_tensor(output, torch.arange(2.0 * world_size))
    assert torch.equal(output, torch.tensor([2.0 * rank, 2.0 * rank + 1]) * world_size)


def lazily_conjugated(rank: int, world_size: int) -> None:
    plain = torch.tensor([1 + 2j, 3 - 1j]) * (rank + 1)
    total = plain.conj() / (rank + 1) * (world_size * (world_size + 1) // 2)
    tensor = plain.conj()
    assert tensor.is_conj()
    # Not through torch's dispatcher, which gives backends a copy of such a tensor and drops the result.
    dist.group.WORLD._get_backend(torch.device("cpu")).allreduce([tensor]).wait()
    assert torch.equal(tensor, total)
    assert torch.equal(plain, total.conj())


def expanded(rank: int, world_size: int) -> None:
    flat = torch.tensor([rank + 1.0]).expand(4)
    parts = [torch.empty(4) for _ in range(world_size)]
    dist.all_gather(parts, flat)
    assert torch.equal(torch.stack(parts), torch.arange(1.0, world_size + 1)[:, None].expand(-1, 4))
    tensor = flat if rank == 0 else torch.zeros(4)
    dist.broadcast(tensor, 0)
    assert torch.equal(tensor, torch.ones(4))
    with pytest.raises(ValueError, match="share memory"):
        dist.all_reduce(flat)
    assert flat[0] == rank + 1
    usable(world_size)


def empty(rank: int, world_size: int) -> None:
    for shape in [(0,), (0, 3), (3, 0)]:
        tensor = torch.empty(shape)
        dist.all_reduce(tensor)
        dist.broadcast(tensor, world_size - 1)
        dist.all_gather([torch.empty(shape) for _ in range(world_size)], tensor)
        dist.all_gather_into_tensor(torch.empty((world_size * shape[0], *shape[1:])), tensor)
        dist.reduce_scatter_tensor(tensor, torch.empty((world_size * shape[0], *shape[1:])))
        dist.all_reduce(tensor, async_op=True).wait()
    dist.barrier()
    usable(world_size)


def misaligned_between_sentinels(rank: int, world_size: int) -> None:
    for dtype in (torch.bfloat16, torch.float32, torch.int8):
        for count in range(1, 41):
            memory = torch.full((count + 129,), 77, dtype=dtype)
            window = memory[65 : 65 + count]
            window.copy_(torch.arange(count) % 13 + rank)
            dist.all_reduce(window)
            expected = (torch.arange(count) % 13) * world_size + sum(range(world_size))
            assert torch.equal(window, expected.to(dtype)), (dtype, count)
            assert torch.equal(memory[:65], torch.full((65,), 77, dtype=dtype))
            assert torch.equal(memory[65 + count :], torch.full((64,), 77, dtype=dtype))


def in_place(rank: int, world_size: int) -> None:
    whole = torch.full((3 * world_size,), -1.0)
    own = whole[3 * rank : 3 * rank + 3]
    own.fill_(rank)
    dist.all_gather_into_tensor(whole, own)
    assert torch.equal(whole, torch.arange(float(world_size)).repeat_interleave(3))
    whole = torch.arange(2.0 * world_size) + rank
    dist.reduce_scatter_tensor(whole[2 * rank : 2 * rank + 2], whole)
    expected = torch.tensor([2.0 * rank, 2.0 * rank + 1]) * world_size + sum(range(world_size))
    assert torch.equal(whole[2 * rank : 2 * rank + 2], expected)
    memory = torch.arange(world_size + 1.0)
    with pytest.raises(ValueError, match="overlap"):
        dist.all_gather_into_tensor(memory[1:], memory[1 + (rank + 1) % world_size :][:1])
    inputs = torch.arange(4.0)
    dist.all_gather_into_tensor(torch.empty(4 * world_size), inputs)
    dist.reduce_scatter_tensor(torch.empty(1), kept := torch.arange(float(world_size)))
    assert torch.equal(inputs, torch.arange(4.0))
    assert torch.equal(kept, torch.arange(float(world_size)))


def refused(rank: int, world_size: int) -> None:
    sparse = torch.eye(3).to_sparse()
    with pytest.raises(NotImplementedError, match=r"(?i)sparse"):
        dist.broadcast(sparse, 0)
    usable(world_size)


def autograd_sees_nothing(rank: int, world_size: int) -> None:
    leaf = torch.ones(4, requires_grad=True)
    dist.all_reduce(leaf)
    strided = torch.ones(4, 2, requires_grad=True)
    version = strided._version
    dist.all_reduce(strided.detach().t())
    with torch.inference_mode():
        tensor = torch.ones(2, 3).t()
        dist.all_reduce(tensor)
    assert leaf._version == 0
    assert leaf.grad_fn is None
    assert strided._version == version
    assert torch.equal(leaf.detach(), torch.full((4,), float(world_size)))
    assert torch.equal(strided.detach(), torch.full((4, 2), float(world_size)))
    assert torch.equal(tensor, torch.full((3, 2), float(world_size)))


def layouts(rank: int, world_size: int) -> None:
    strided_in_and_out(rank, world_size)
    different_strides(rank, world_size)
    lazily_conjugated(rank, world_size)
    expanded(rank, world_size)
    empty(rank, world_size)
    misaligned_between_sentinels(rank, world_size)
    in_place(rank, world_size)
    refused(rank, world_size)
    autograd_sees_nothing(rank, world_size)


@pytest.mark.parametrize("world_size", [2, 3])
def test_layouts(world_size: int) -> None:
    run(layouts, world_size)
