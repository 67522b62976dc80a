"""TORCH_DISTRIBUTED_DEBUG=DETAIL puts torch's checking wrapper around the backend."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness import run
from test_collectives import usable

DETAIL = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "TORCH_CPP_LOG_LEVEL": "ERROR"}


def normal_program(rank: int, world_size: int) -> None:
    usable(world_size)
    tensor = torch.full((4,), float(rank))
    dist.broadcast(tensor, 1)
    assert torch.equal(tensor, torch.ones(4))
    parts = [torch.empty(2) for _ in range(world_size)]
    dist.all_gather(parts, torch.full((2,), float(rank)))
    dist.all_gather_into_tensor(torch.empty(2 * world_size), torch.ones(2))
    dist.reduce_scatter_tensor(torch.empty(2), torch.ones(2 * world_size))
    dist.reduce(torch.ones(2), 0)
    dist.gather(torch.ones(2), parts if rank == 0 else None)
    dist.scatter(torch.empty(2), parts if rank == 0 else None)
    dist.all_to_all_single(torch.empty(world_size), torch.ones(world_size))
    dist.all_to_all(parts, [torch.ones(2) for _ in range(world_size)])
    dist.all_reduce(torch.ones(3), async_op=True).wait()
    dist.barrier()
    pair = dist.new_group([0, 1])
    if rank < 2:
        dist.all_reduce(torch.ones(2), group=pair)
        dist.barrier(group=pair)
    dist.barrier()


def different_sizes(rank: int, world_size: int) -> None:
    with pytest.raises(RuntimeError, match=r"(?i)all_?reduce"):
        dist.all_reduce(torch.ones(4 + rank))


def test_normal_program() -> None:
    run(normal_program, 3, env=DETAIL)


def test_mismatch_is_found_at_once() -> None:
    run(different_sizes, 2, env=DETAIL)
