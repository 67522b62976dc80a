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


def nobody_waits(rank: int, world_size: int) -> None:
    for size in (1, 1 << 10, 1 << 20, 1 << 24):
        works = [dist.all_reduce(torch.full((size,), float(rank + i)), async_op=True) for i in range(4)]
        deadline = time.monotonic() + 30
        while not all(work.is_completed() for work in works):
            assert time.monotonic() < deadline, f"operations of {size} elements do not move without a waiter"
            time.sleep(0.005)


def test_operations_go_on_while_nobody_waits() -> None:
    run(nobody_waits, 3)


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
