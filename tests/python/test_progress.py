"""Who drives, who sleeps: an idle group costs nothing, operations go on by themselves, the GIL stays free."""

from __future__ import annotations

import threading
import time

import torch
import torch.distributed as dist
from harness import run


def cpu_seconds() -> float:
    return time.process_time()


def idle(rank: int, world_size: int) -> None:
    dist.all_reduce(torch.ones(1 << 20))
    dist.barrier()
    time.sleep(0.5)  # what the last operation left behind
    before = cpu_seconds()
    time.sleep(10)
    used = cpu_seconds() - before
    assert used < 0.1, f"rank {rank} used {used:.3f} s of CPU in 10 s without an operation"
    dist.barrier()


def test_an_idle_group_sleeps() -> None:
    run(idle, 2)


def late_peer(rank: int, world_size: int) -> None:
    x = torch.ones(1000)
    dist.all_reduce(x)
    before = cpu_seconds()
    if rank == 1:
        time.sleep(5)
    dist.all_reduce(x)
    used = cpu_seconds() - before
    assert used < 0.3, f"rank {rank} used {used:.3f} s of CPU while it waited 5 s"


def test_waiting_for_a_late_peer_sleeps() -> None:
    run(late_peer, 2)


def short_calls_beside_a_receive(rank: int, world_size: int) -> float:
    """Returns how long rank 1 needed to send what rank 0 has asked for before it computed."""
    other, large, slowest = dist.new_group(list(range(world_size))), torch.ones(64 << 10), 0.0
    for tag in range(6):
        dist.barrier()
        if rank == 0:
            work = dist.irecv(large, 1, tag=tag)
        time.sleep(0.1 if rank == 0 else 0.15)  # the background thread falls asleep
        for _ in range(20):
            dist.all_reduce(torch.ones(4), group=other)
        if rank == 0:
            time.sleep(1.2)  # computes
            work.wait()
        else:
            time.sleep(0.05)
            began = time.monotonic()
            dist.send(large, 0, tag=tag)
            slowest = max(slowest, time.monotonic() - began)
    return slowest


def test_short_calls_leave_nobody_deaf() -> None:
    """Calls that are carried out at once tell peers not to ring; whoever sleeps must be told to listen again."""
    assert run(short_calls_beside_a_receive, 2)[1] < 0.7


def nobody_waits(rank: int, world_size: int) -> None:
    for size in (1, 1 << 10, 1 << 20, 1 << 24):
        works = [dist.all_reduce(torch.full((size,), float(rank + i)), async_op=True) for i in range(4)]
        deadline = time.monotonic() + 30
        while not all(work.is_completed() for work in works):
            assert time.monotonic() < deadline, f"operations of {size} elements do not move without a waiter"
            time.sleep(0.005)


def test_operations_go_on_while_nobody_waits() -> None:
    run(nobody_waits, 3)


def bursts(rank: int, world_size: int) -> None:
    """Many small operations started at once, more than may be in flight, then one that is late on a rank."""
    for count in (8, 100, 1000):
        tensors = [torch.full((1 + i % 64,), float(rank + i)) for i in range(count)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        deadline = time.monotonic() + 30
        while not all(work.is_completed() for work in works):
            assert time.monotonic() < deadline, f"a burst of {count} operations does not end without a waiter"
            time.sleep(0.005)
        for i, tensor in enumerate(tensors):
            assert torch.equal(tensor, torch.full((1 + i % 64,), float(world_size * i + sum(range(world_size)))))
        if rank == 0:
            time.sleep(0.2)  # the burst of the others is over when this rank comes
        late = dist.all_reduce(torch.ones(1 << 20), async_op=True)
        while not late.is_completed():
            assert time.monotonic() < deadline, "nothing moves after a burst"
            time.sleep(0.005)


def test_bursts_go_on_while_nobody_waits() -> None:
    run(bursts, 2)


def gil_stays_free(rank: int, world_size: int) -> None:
    dist.barrier()
    counted = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    if rank == 1:
        time.sleep(2)
    else:
        thread.start()
    dist.barrier()
    if rank == 0:
        stop.set()
        thread.join()
        assert counted > 40, f"another thread ran {counted} times in 2 s of waiting"


def test_the_gil_is_free_while_waiting() -> None:
    run(gil_stays_free, 2)
