"""The profiler sees one event for each operation, under ucxring's names, with shapes."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from harness import run
from torch.profiler import ProfilerActivity, profile


def profiled(rank: int, world_size: int) -> None:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        dist.all_reduce(torch.ones(3, 4))
        dist.broadcast(torch.ones(5), 0)
        parts = [torch.empty(6) for _ in range(world_size)]
        dist.all_gather(parts, torch.ones(6))
        dist.all_gather_into_tensor(torch.empty(2 * world_size), torch.ones(2))
        dist.reduce_scatter_tensor(torch.empty(2), torch.ones(2 * world_size))
        dist.reduce(torch.ones(2), 0)
        dist.gather(torch.ones(2), [torch.empty(2) for _ in range(world_size)] if rank == 0 else None)
        dist.scatter(torch.empty(2), [torch.ones(2) for _ in range(world_size)] if rank == 0 else None)
        dist.all_to_all_single(torch.empty(world_size), torch.ones(world_size))
        dist.all_to_all(parts, [torch.ones(6) for _ in range(world_size)])
        dist.barrier()
        if rank == 0:
            time.sleep(0.3)
        work = dist.all_reduce(torch.ones(7, 7), async_op=True)
        time.sleep(3)
        work.wait()
    events = {}
    for event in recorded.events():
        if event.name.startswith("ucxring:"):
            events.setdefault(event.name, []).append(event)
    assert {name: len(found) for name, found in events.items()} == {
        "ucxring:all_reduce": 2,
        "ucxring:broadcast": 1,
        "ucxring:all_gather": 1,
        "ucxring:all_gather_into_tensor": 1,
        "ucxring:reduce_scatter_tensor": 1,
        "ucxring:reduce": 1,
        "ucxring:gather": 1,
        "ucxring:scatter": 1,
        "ucxring:all_to_all": 2,
        "ucxring:barrier": 1,
    }
    assert events["ucxring:all_reduce"][0].input_shapes == [[3, 4]]
    assert events["ucxring:broadcast"][0].input_shapes == [[5]]
    if rank != 0:  # the operation ends when rank 0 comes, not when it is waited for
        assert events["ucxring:all_reduce"][1].time_range.elapsed_us() < 2_500_000


def test_profiler() -> None:
    run(profiled, 2)
