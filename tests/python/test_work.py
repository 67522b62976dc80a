"""The handle of an operation: completion, order of waits, futures, errors, lifetimes."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from harness import PROMPT_S, hear, run, say
from test_collectives import usable


def waits_in_any_order(rank: int, world_size: int) -> None:
    works = []
    for i in range(2000):
        tensor = torch.full((1 + i % 64,), float(i + rank))
        works.append((i, tensor, dist.all_reduce(tensor, async_op=True)))
    for i, tensor, work in reversed(works):
        assert work.wait()
        assert work.is_completed()
        assert work.is_success()
        assert work.exception() is None
        assert torch.equal(tensor, torch.full_like(tensor, i * world_size + sum(range(world_size)))), i


def result_and_sequence(rank: int, world_size: int) -> None:
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    before = backend._get_sequence_number_for_group()
    tensor = torch.ones(3)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert backend._get_sequence_number_for_group() == before + 1
    assert work.result()[0].data_ptr() == tensor.data_ptr()
    assert dist.all_reduce(tensor) is None
    work.synchronize()


def polls_until_done(rank: int, world_size: int) -> None:
    tensor = torch.ones(100_000)
    work = dist.all_reduce(tensor.view(1000, 100).t(), async_op=True)
    end = time.monotonic() + 20
    while not work.is_completed():
        assert time.monotonic() < end
    assert torch.equal(tensor, torch.full_like(tensor, float(world_size)))


def futures(rank: int, world_size: int) -> None:
    tensor = torch.ones(5)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    assert future.wait()[0].data_ptr() == tensor.data_ptr()
    assert dist.barrier(async_op=True).get_future().wait() == []
    parts = [torch.empty(2) for _ in range(world_size)]
    gathered = dist.all_gather(parts, torch.full((2,), float(rank)), async_op=True).get_future().wait()
    assert [part.data_ptr() for part in gathered] == [part.data_ptr() for part in parts]
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    late = work.get_future()
    late.wait()
    assert late.value()[0].data_ptr() == tensor.data_ptr()
    done: list[int] = []
    chain = []
    for i in range(50):
        work = dist.all_reduce(torch.ones(1 + 1000 * (i % 3)), async_op=True)
        chain.append(work.get_future().then(lambda _, i=i: done.append(i)))
    for each in chain:
        each.wait()
    assert done == list(range(50))


def callbacks_call_collectives(rank: int, world_size: int) -> None:
    def again(future: torch.futures.Future) -> torch.Tensor:
        tensor = future.value()[0].clone()
        dist.all_reduce(tensor)
        dist.all_reduce(tensor, async_op=True).wait()
        return tensor

    first = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(again)
    assert torch.equal(first.wait(), torch.full((3,), float(world_size**3)))

    def breaks(_: torch.futures.Future) -> None:
        raise KeyError("mine")

    with pytest.raises(Exception, match="mine"):
        dist.all_reduce(torch.ones(3), async_op=True).get_future().then(breaks).wait()
    usable(world_size)


def wait_with_limit(rank: int, world_size: int) -> None:
    dist.barrier()
    if rank == 0:
        hear(*[f"waited{each}" for each in range(1, world_size)])
    tensor = torch.ones(3)
    work = dist.all_reduce(tensor, async_op=True)
    if rank != 0:
        began = time.monotonic()
        with pytest.raises(dist.DistBackendError, match=r"300 ms.*in flight"):
            work.wait(timedelta(milliseconds=300))
        assert 0.25 < time.monotonic() - began < PROMPT_S
        assert not work.is_completed()
        assert not work.is_success()
        assert work.exception() is None
        say(f"waited{rank}")
    assert work.wait(timedelta(seconds=20))
    assert torch.equal(tensor, torch.full((3,), float(world_size)))


def dropped_handles_keep_tensors(rank: int, world_size: int) -> None:
    dist.barrier()
    if rank == 0:
        time.sleep(0.3)
    reference = None
    for _ in range(20):
        tensor = torch.ones(200_000)
        reference = weakref.ref(tensor.untyped_storage())
        storage = weakref.finalize(tensor.untyped_storage(), lambda: None)
        dist.all_reduce(tensor, async_op=True)
        del tensor
    assert reference is not None
    assert storage is not None
    gc.collect()
    dist.barrier()
    usable(world_size)


def barrier_waits_for_earlier(rank: int, world_size: int) -> None:
    tensors = [torch.ones(50_000).view(500, 100).t() for _ in range(8)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    dist.barrier()
    assert all(work.is_completed() for work in works)
    assert all(torch.equal(tensor, torch.full_like(tensor, float(world_size))) for tensor in tensors)
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    dist.barrier(async_op=True).wait()
    assert all(work.is_completed() for work in works)


def several_threads_and_groups(rank: int, world_size: int) -> None:
    groups = [dist.new_group() for _ in range(3)]
    errors: list[BaseException] = []

    def loop(index: int) -> None:
        try:
            for i in range(100):
                count = (i * 7919 + index) % 20_000 + 1
                tensor = torch.full((count,), float(rank + index + i))
                dist.all_reduce(tensor, group=groups[index])
                expected = world_size * (index + i) + sum(range(world_size))
                assert torch.equal(tensor, torch.full((count,), float(expected)))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=loop, args=(index,)) for index in range(3)]
    for thread in threads if rank % 2 == 0 else reversed(threads):
        thread.start()
    for _ in range(20):
        dist.barrier()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    for group in groups:
        dist.destroy_process_group(group)


def gil_is_free_while_waiting(rank: int, world_size: int) -> None:
    counted = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0.001)

    dist.barrier()
    thread = threading.Thread(target=count)
    if rank == 0:
        time.sleep(0.5)
    else:
        thread.start()
    dist.all_reduce(torch.ones(3))
    stop.set()
    if rank != 0:
        thread.join()
        assert counted > 10


def works(rank: int, world_size: int) -> None:
    waits_in_any_order(rank, world_size)
    result_and_sequence(rank, world_size)
    polls_until_done(rank, world_size)
    futures(rank, world_size)
    callbacks_call_collectives(rank, world_size)
    wait_with_limit(rank, world_size)
    dropped_handles_keep_tensors(rank, world_size)
    barrier_waits_for_earlier(rank, world_size)
    several_threads_and_groups(rank, world_size)
    gil_is_free_while_waiting(rank, world_size)


@pytest.mark.parametrize("world_size", [2, 3])
def test_works(world_size: int) -> None:
    run(works, world_size)


def overlapping_groups(rank: int, world_size: int) -> None:
    members = [[0, 1], [1, 2], [0, 1, 2, 3], [2, 3]] + [[i] for i in range(world_size)]
    groups = [dist.new_group(ranks) for ranks in members]
    for round_number in range(20):
        order = [i for i in range(len(members)) if rank in members[i]]
        order = order[rank % len(order) :] + order[: rank % len(order)]
        pending = []
        for i in order:
            tensor = torch.full((17,), float(rank + round_number))
            pending.append((i, tensor, dist.all_reduce(tensor, group=groups[i], async_op=True)))
        for i, tensor, work in pending:
            work.wait()
            expected = sum(members[i]) + round_number * len(members[i])
            assert torch.equal(tensor, torch.full((17,), float(expected)))


def test_overlapping_groups() -> None:
    run(overlapping_groups, 4)
