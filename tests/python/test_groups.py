"""What torch asks of a group besides operations: monitored barriers, hooks, timing, groups made of groups."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from harness import require_usage, run, usage
from test_collectives import usable
from torch._C._distributed_c10d import ErrorType, OpType

CPU = torch.device("cpu")


def monitored_barrier(rank: int, world_size: int) -> None:
    group = dist.group.WORLD
    limit = timedelta(seconds=3)
    long = timedelta(seconds=20)
    group.monitored_barrier(long)
    group.monitored_barrier(long, wait_all_ranks=True)
    # Operations in flight are not in its way, and it fails none of them.
    work = dist.all_reduce(torch.ones(3), async_op=True) if rank == 0 else None
    group.monitored_barrier(long)
    if rank != 0:
        dist.all_reduce(torch.ones(3))
    if work is not None:
        work.wait()
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match="Rank 1 failed to pass monitoredBarrier in 3000 ms"):
            group.monitored_barrier(limit)
        with pytest.raises(dist.DistBackendError, match="Ranks 1, 2 failed to pass monitoredBarrier in 300 ms"):
            group.monitored_barrier(timedelta(milliseconds=300), wait_all_ranks=True)
    elif rank == 2:
        with pytest.raises(dist.DistBackendError, match=r"Rank 2 successfully.*Rank 1 failed to pass"):
            group.monitored_barrier(limit)
    dist.barrier()
    if rank == 1:  # too late is told so at once
        with pytest.raises(dist.DistBackendError, match="Rank 1 failed to pass"):
            group.monitored_barrier(limit)
    dist.barrier()
    usable(world_size)


def test_monitored_barrier_names_who_is_missing() -> None:
    run(monitored_barrier, 3)


def hooks(rank: int, world_size: int) -> None:
    seen = []
    threads = set()

    def note(info: object) -> None:
        seen.append((info.op_type, info.seq, info.time_finished - info.time_started, info.active_duration))
        threads.add(threading.get_native_id())

    dist.all_reduce(torch.ones(3))
    group = dist.group.WORLD
    assert not group._has_hooks()
    group._register_on_completion_hook(note)
    assert group._has_hooks()
    with pytest.raises(ValueError, match="has a hook"):
        group._register_on_completion_hook(note)
    works = [dist.all_reduce(torch.ones(100), async_op=True) for _ in range(20)]
    dist.broadcast(torch.ones(3), 0)
    works[3].get_future().wait()
    group._wait_for_pending_works()
    assert [seq for _, seq, _, _ in seen] == list(range(2, 23))
    assert [kind for kind, _, _, _ in seen] == [OpType.ALLREDUCE] * 20 + [OpType.BROADCAST]
    assert all(passed >= timedelta(0) and active >= timedelta(0) for _, _, passed, active in seen)
    assert threading.get_native_id() not in threads
    usable(world_size)


def timing(rank: int, world_size: int) -> None:
    group = dist.new_group()
    work = dist.all_reduce(torch.ones(3), group=group, async_op=True)
    work.wait()
    with pytest.raises(RuntimeError, match="enable_collectives_timing"):
        work._get_duration()
    group._enable_collectives_timing()
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.wait([f"started{each}" for each in range(1, world_size)])
        time.sleep(0.2)
    work = dist.all_reduce(torch.ones(3), group=group, async_op=True)
    if rank != 0:
        with pytest.raises(RuntimeError, match="when it is completed"):
            work._get_duration()
        store.set(f"started{rank}", "1")
    work.wait()
    assert work._get_duration() > (0 if rank == 0 else 150)
    dist.destroy_process_group(group)


def split_and_merge(rank: int, world_size: int) -> None:
    world = dist.group.WORLD
    ranks = [0, 2] if rank in (0, 2) else [1]
    half = world.split_group(ranks, timedelta(seconds=7), None, f"half{ranks}", "mine")
    assert (half.rank(), half.size()) == (ranks.index(rank), len(ranks))
    tensor = torch.full((3,), float(rank))
    half.allreduce([tensor]).wait()
    assert tensor[0] == sum(ranks)
    options = half._get_backend(CPU).options
    assert options.timeout == timedelta(seconds=7)
    assert options.global_ranks_in_group == ranks
    assert world._get_backend(CPU).options.group_name == "world"
    store = dist.PrefixStore("merged", dist.distributed_c10d._get_default_store())
    merged = world.merge_remote_group(store, world_size, timedelta(seconds=9), "all", "again")
    tensor = torch.full((3,), float(rank))
    merged.allreduce([tensor]).wait()
    assert tensor[0] == sum(range(world_size))
    for group in (half, merged):
        group.shutdown()
    usable(world_size)


def timeouts_of_groups(rank: int, world_size: int) -> None:
    group = dist.new_group(timeout=timedelta(seconds=3))
    backend = group._get_backend(CPU)
    assert backend.options.timeout == timedelta(seconds=3)
    group.set_timeout(timedelta(milliseconds=400))
    assert backend.options.timeout == timedelta(milliseconds=400)
    assert backend.get_error() == ErrorType.SUCCESS
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match=r"timeout.*1, 2"):
            dist.all_reduce(torch.ones(3), group=group)
        assert backend.get_error() == ErrorType.TIMEOUT
        with pytest.raises(dist.DistBackendError, match=r"timeout"):
            group.monitored_barrier(timedelta(seconds=1))
    dist.barrier()
    usable(world_size)


def hundred_groups(rank: int, world_size: int) -> None:
    early = None
    for number in range(100):
        members = [0, 1] if number % 2 else list(range(world_size))
        group = dist.new_group(members)
        if rank in members:
            tensor = torch.ones(2)
            dist.all_reduce(tensor, group=group)
            assert tensor[0] == len(members)
            dist.destroy_process_group(group)
        dist.barrier()
        if number == 9:
            early = usage()
    require_usage(early)


def kinds_of_groups(rank: int, world_size: int) -> None:
    if rank in (1, 2):  # torch names such a group by how many groups the rank has: the same on both
        local = dist.new_group([1, 2], use_local_synchronization=True)
        tensor = torch.full((2,), float(rank))
        dist.all_reduce(tensor, group=local)
        assert tensor[0] == 3
    unsorted = dist.new_group([2, 0], sort_ranks=False)
    if rank in (0, 2):
        assert dist.get_group_rank(unsorted, 2) == 0
        tensor = torch.full((2,), float(rank))
        dist.broadcast(tensor, 2, group=unsorted)
        assert tensor[0] == 2
    mixed = dist.new_group(backend="cpu:gloo,cuda:ucxring")
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=mixed)
    assert tensor[0] == world_size
    assert mixed._get_backend(CPU).name() == "gloo"
    alone = [dist.new_group([each]) for each in range(world_size)][rank]
    tensor = torch.arange(3.0)
    dist.all_reduce(tensor, group=alone)
    dist.broadcast(tensor, rank, group=alone)
    dist.barrier(group=alone)
    assert torch.equal(tensor, torch.arange(3.0))


def groups(rank: int, world_size: int) -> None:
    for part in (hooks, timing, split_and_merge, timeouts_of_groups, kinds_of_groups, hundred_groups):
        part(rank, world_size)


def test_groups() -> None:
    run(groups, 3)
