"""Exchanges in which every rank sends before anybody receives, or lists its receives first: none may dead-lock.
Batches in which something is raised, and many receives in flight."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from harness import run
from test_collectives import usable

RING = 4_000_000  # 16 MB of float32
PAIR = 16_000_000  # 64 MB


def numbers(count: int, source: int, number: int = 0) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float32) % 1000 + 10 * source + number


def finish(works: list[dist.Work]) -> None:
    for work in works:
        work.wait()


def ring(rank: int, world_size: int) -> None:
    """Odd ranks list their receive first, even ones their send."""
    after, before = (rank + 1) % world_size, (rank - 1) % world_size
    received = torch.empty(RING)
    ops = [dist.P2POp(dist.isend, numbers(RING, rank), after), dist.P2POp(dist.irecv, received, before)]
    finish(dist.batch_isend_irecv(ops if rank % 2 == 0 else ops[::-1]))
    assert torch.equal(received, numbers(RING, before))


def several_to_one_peer(rank: int, world_size: int) -> None:
    """Three messages of different sizes in one batch, small and large in turn; receives before or after."""
    after, before = (rank + 1) % world_size, (rank - 1) % world_size
    sizes = [5, 300_000, 2000]
    targets = [torch.empty(size) for size in sizes]
    sends = [dist.P2POp(dist.isend, numbers(size, rank, i), after) for i, size in enumerate(sizes)]
    receives = [dist.P2POp(dist.irecv, target, before) for target in targets]
    finish(dist.batch_isend_irecv(sends + receives if rank % 2 == 0 else receives + sends))
    for i, target in enumerate(targets):
        assert torch.equal(target, numbers(sizes[i], before, i))


def both_ways(rank: int, world_size: int) -> None:
    """Pairs exchange 64 MB, one by one and in batches, in every order in which the two may list their calls."""
    peer = rank ^ 1
    sent, received = numbers(PAIR, rank), torch.empty(PAIR)
    right = numbers(PAIR, peer)

    def send() -> dist.Work:
        return dist.isend(sent, peer)

    def receive() -> dist.Work:
        return dist.irecv(received, peer)

    def check() -> None:
        assert torch.equal(received, right)
        received.zero_()

    orders: list[tuple[Callable[[], dist.Work], ...]] = [(send, receive), (receive, send)]
    for ours in (0, 1):  # of the lower rank; the other one does it the same way, then the other way round
        for mirrored in (False, True):
            finish([call() for call in orders[ours if rank < peer or not mirrored else 1 - ours]])
            check()
    batch = [dist.P2POp(dist.isend, sent, peer), dist.P2POp(dist.irecv, received, peer)]
    finish(dist.batch_isend_irecv(batch if rank < peer else batch[::-1]))
    check()


def bystanders(rank: int, world_size: int) -> None:
    """Only the first and the last rank exchange; the others go straight to the barrier."""
    last = world_size - 1
    if rank in (0, last):
        peer = last - rank
        received = torch.empty(RING)
        batch = [dist.P2POp(dist.irecv, received, peer), dist.P2POp(dist.isend, numbers(RING, rank), peer)]
        finish(dist.batch_isend_irecv(batch))
        assert torch.equal(received, numbers(RING, peer))
    dist.barrier()


def patterns(rank: int, world_size: int) -> None:
    bystanders(rank, world_size)  # the first batch of the group, and not all ranks take part
    for part in (ring, several_to_one_peer, both_ways):
        part(rank, world_size)
    usable(world_size)


def test_patterns() -> None:
    run(patterns, 4, watchdog_s=120)


def failed_batches(rank: int, world_size: int) -> None:
    """torch ends no coalescing in which something is raised: neither its state nor ours may outlive a batch."""
    after = (rank + 1) % world_size
    with pytest.raises(ValueError, match="share memory"):
        dist.batch_isend_irecv([dist.P2POp(dist.irecv, torch.ones(1).expand(4), after)])
    usable(world_size)
    with pytest.raises(ZeroDivisionError), dist._coalescing_manager(device=torch.device("cpu")):
        raise ZeroDivisionError
    dist.distributed_c10d._world.pg_coalesce_state.clear()  # torch's own, which no backend can see
    for late in range(world_size):
        value = torch.full((3,), float(rank))
        if rank == late:
            time.sleep(0.1)
        dist.broadcast(value, late)
        assert value.tolist() == [late] * 3, "a synchronous call returns when it is done"


def test_failed_batches() -> None:
    run(failed_batches, 2)


def sends_beside_waiting_receives(rank: int, world_size: int) -> float:
    """How many times longer a send takes beside thousands of receives in flight. At best of several trials."""
    peer = 1 - rank

    def send_seconds() -> float:
        best = float("inf")
        for _ in range(10):
            began = time.monotonic()
            works = [dist.isend(torch.ones(4), peer, tag=-1) for _ in range(30)]
            best = min(best, time.monotonic() - began)
            for _ in range(30):
                dist.recv(torch.empty(4), peer, tag=-1)
            for work in works:
                work.wait()
        return best

    alone = send_seconds()
    works = [dist.irecv(torch.empty(4), peer, tag=tag) for tag in range(20_000)]
    beside = send_seconds()
    for tag in reversed(range(20_000)):
        dist.isend(torch.full((4,), float(tag)), peer, tag=tag)
    for work in works:
        work.wait()
    return beside / alone


def test_sends_beside_waiting_receives() -> None:
    assert max(run(sends_beside_waiting_receives, 2)) < 10
