"""Sends and receives: tags, any source, batches, layouts, objects, and what is said when two do not fit together."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from harness import PROMPT_S, Ranks, run, wait_for_file
from test_collectives import COMPLEX, FLOATS, INTEGERS, as_bytes, usable
from torch.profiler import ProfilerActivity, profile

LARGE = 4_000_000  # 16 MB of float32


def numbers(count: int, source: int, tag: int = 0) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float32) % 1000 + 10 * source + tag


def tags_and_any_source(rank: int, world_size: int) -> None:
    last = world_size - 1
    sent = [torch.full((3,), 10.0 * rank + tag) for tag in range(5)]
    works = [dist.isend(tensor, last, tag=tag) for tag, tensor in enumerate(sent)] if rank != last else []
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == world_size
    if rank == last:
        for source in range(last):
            for tag in reversed(range(5)):
                tensor = torch.empty(3)
                assert dist.recv(tensor, source, tag=tag) == source
                assert torch.equal(tensor, torch.full((3,), 10.0 * source + tag))
        for _ in range(5 * last):
            tensor = torch.empty(1)
            source = dist.recv(tensor)
            assert tensor.item() == source
    else:
        for _ in range(5):
            works.append(dist.isend(torch.tensor([float(rank)]), last))
    for work in works:
        work.wait()
    dist.barrier()


@pytest.mark.parametrize("world_size", [2, 3])
def test_tags_and_any_source(world_size: int) -> None:
    run(tags_and_any_source, world_size)


def every_type_and_layout(rank: int, world_size: int) -> None:
    types = [*FLOATS, *INTEGERS, *COMPLEX, torch.bool, torch.complex32]
    for number, dtype in enumerate(types):
        for count in (0, 1, 5, 3000):
            wanted = (torch.arange(count) % 2).to(dtype)
            if rank == 0:
                dist.send(wanted, 1, tag=number)
            else:
                tensor = torch.zeros(count, dtype=dtype)
                dist.recv(tensor, 0, tag=number)
                assert torch.equal(as_bytes(tensor), as_bytes(wanted)), (dtype, count)
    whole = torch.arange(24.0).view(2, 3, 4)
    layouts = [
        whole.transpose(0, 2),
        whole[:, 1:, ::2],
        whole.view(1, 2, 3, 4).to(memory_format=torch.channels_last),
        torch.ones(1).expand(4, 5),
        whole.flatten()[3:7],
    ]
    for layout in layouts:
        if rank == 0:
            dist.send(layout, 1)
            continue
        plain = torch.empty(layout.shape)
        dist.recv(plain, 0)
        assert torch.equal(plain, layout)
    target = torch.zeros(8, 6).t()[::2]
    other = torch.zeros(2, 12)[:, 1:10:3]
    if rank == 0:
        dist.send(torch.arange(24.0), 1)
        dist.send(torch.arange(3.0), 1)
    else:
        dist.recv(target, 0)
        assert torch.equal(target.reshape(-1), torch.arange(24.0))
        other.fill_(7)
        dist.recv(other, 0)
        assert other.reshape(-1).tolist() == [0, 1, 2, 7, 7, 7], "a shorter message leaves the rest"
        with pytest.raises(ValueError, match="share memory"):
            dist.recv(torch.ones(1).expand(3), 0)
    usable(world_size)


def test_every_type_and_layout() -> None:
    run(every_type_and_layout, 2)


def batches(rank: int, world_size: int) -> None:
    after, before = (rank + 1) % world_size, (rank - 1) % world_size
    sent, received = numbers(LARGE, rank), torch.empty(LARGE)
    ops = [dist.P2POp(dist.isend, sent, after), dist.P2POp(dist.irecv, received, before)]
    works = dist.batch_isend_irecv(ops if rank % 2 == 0 else ops[::-1])
    assert len(works) == 2, "one work for each operation"
    for work in works:
        work.wait()
    assert torch.equal(received, numbers(LARGE, before))

    sizes = [7, 100_000, 0, 2000]
    targets = [torch.empty(2 * size)[::2] for size in sizes]
    batch = [dist.P2POp(dist.isend, numbers(size, rank, i), after) for i, size in enumerate(sizes)]
    batch += [dist.P2POp(dist.irecv, target, before) for target in targets]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
        assert work.is_success()
    for i, size in enumerate(sizes):
        assert torch.equal(targets[i], numbers(size, before, i))

    outputs, joined = [torch.ones(5), torch.ones(70_000)], torch.empty(world_size)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.broadcast(outputs[0], 0)
        dist.broadcast(outputs[1], 0, async_op=True)
        dist.all_gather_into_tensor(joined, torch.full((1,), float(rank)))
    manager.wait()
    with dist._coalescing_manager(device=torch.device("cpu")):
        dist.barrier()
    usable(world_size)


@pytest.mark.parametrize("world_size", [2, 3])
def test_batches(world_size: int) -> None:
    run(batches, world_size)


def self_and_strangers(rank: int, world_size: int) -> None:
    for count in (3, 100_000):
        tensor = torch.empty(count)
        early = dist.irecv(tensor, rank, tag=1)
        dist.isend(numbers(count, rank), rank, tag=1).wait()
        early.wait()
        assert torch.equal(tensor, numbers(count, rank))
        work = dist.isend(numbers(count, rank, 5), rank, tag=2)
        dist.irecv(tensor, rank, tag=2).wait()
        work.wait()
        assert torch.equal(tensor, numbers(count, rank, 5))
    group = dist.group.WORLD
    for call in (group.send, group.recv):
        with pytest.raises(ValueError, match="rank 9, which is not a rank of this group of 2"):
            call([torch.ones(1)], 9, 0)
    usable(world_size)


def test_self_and_strangers() -> None:
    run(self_and_strangers, 2)


def futures_and_handles(rank: int, world_size: int) -> None:
    peer = 1 - rank
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    before = backend._get_sequence_number_for_group()
    never = torch.zeros(3)
    waits = dist.irecv(never, peer, tag=99).get_future()
    tensor = torch.zeros(4)
    work = dist.irecv(tensor, peer)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    dist.send(torch.full((4,), float(rank)), peer)
    assert torch.equal(doubled.wait(), torch.full((4,), 2.0 * peer)), "though an older one still waits"
    reduced = torch.ones(2)
    future = dist.all_reduce(reduced, async_op=True).get_future()
    assert torch.equal(future.wait()[0], torch.full((2,), 2.0))
    dist.barrier()
    assert not waits.done(), "no barrier waits for a receive"
    dist.barrier()  # nobody sends before both have looked
    dist.send(torch.ones(3), peer, tag=99)
    assert torch.equal(waits.wait()[0], torch.ones(3))
    assert backend._get_sequence_number_for_group() == before + 3, "an all_reduce and two barriers"
    for i in range(2000):  # dropped handles keep their tensors until done
        dist.isend(torch.full((1 + i % 50,), float(i)), peer)
    for i in range(2000):
        target = torch.empty(1 + i % 50)
        dist.recv(target, peer)
        assert target[0].item() == i


def test_futures_and_handles() -> None:
    run(futures_and_handles, 2)


def profiled(rank: int, world_size: int) -> None:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        if rank == 0:
            dist.send(torch.ones(2, 3), 1)
            dist.send(torch.ones(2, 3), 1)
        else:
            dist.recv(torch.empty(2, 3), 0)
            dist.recv(torch.empty(2, 3))
    names = {event.name: event for event in recorded.events() if event.name.startswith("ucxring:")}
    assert set(names) == ({"ucxring:send"} if rank == 0 else {"ucxring:recv", "ucxring:recvAnySource"})
    assert all(event.input_shapes == [[2, 3]] for event in names.values())


def test_profiler() -> None:
    run(profiled, 2)


def objects(rank: int, world_size: int) -> None:
    things = [{"rank": rank}, list(range(100_000)), None]
    if rank == 0:
        for sender in reversed(range(1, world_size)):
            received: list[object] = [None] * 3
            assert dist.recv_object_list(received, src=sender) == sender
            assert received == [{"rank": sender}, *things[1:]]
    else:
        dist.send_object_list(things, dst=0)


def test_objects() -> None:
    run(objects, 3)


def exchange(rank: int, sent: torch.Tensor, received: torch.Tensor) -> None:
    if rank == 0:
        dist.send(sent, 1, tag=4)
    else:
        dist.recv(received, 0, tag=4)
    dist.barrier()


def misfits(rank: int, world_size: int, sent: torch.Tensor, received: torch.Tensor) -> str:
    with pytest.raises(dist.DistBackendError) as caught:
        exchange(rank, sent, received)
    began = time.monotonic()
    dist.destroy_process_group()
    assert time.monotonic() - began < PROMPT_S
    return str(caught.value)


@pytest.mark.parametrize(
    ("sent", "received", "words"),
    [
        (torch.ones(8), torch.ones(7), ["32 bytes", "28 bytes"]),
        (torch.ones(8000), torch.ones(7), ["32000 bytes", "28 bytes"]),
        (torch.ones(8), torch.ones(8, dtype=torch.int32), ["float32", "int32"]),
    ],
    ids=["small", "large", "dtype"],
)
def test_misfits(sent: torch.Tensor, received: torch.Tensor, words: list[str]) -> None:
    for text in run(misfits, 2, sent, received):
        for word in [*words, "rank 0", "rank 1", "tag 4"]:
            assert word in text


def late_receive(rank: int, world_size: int) -> str:
    if rank == 0:
        dist.send(torch.ones(2), 1, tag=3)
        with pytest.raises(dist.DistBackendError) as caught:
            dist.recv(torch.ones(2), 1, tag=5)
    else:
        with pytest.raises(dist.DistBackendError) as caught:
            dist.recv(torch.ones(2), 0, tag=6)
    return str(caught.value)


def test_late_receive() -> None:
    texts = run(late_receive, 2, timeout_s=2)
    assert any(
        "no message with tag 6 has come from rank 0" in text and "tag 3 from rank 0" in text for text in texts
    ) or (any("no message with tag 5 has come from rank 1" in text for text in texts))


def waits_for_the_dead(rank: int, world_size: int, folder: str) -> tuple[str, float]:
    works = [dist.irecv(torch.ones(5), 2, tag=1), dist.irecv(torch.ones(LARGE), 2, tag=2), dist.irecv(torch.ones(5))]
    Path(folder, f"ready{rank}").touch()
    with pytest.raises(dist.DistBackendError, match="rank 2") as caught:
        works[rank].wait()
    ended = time.time()
    dist.destroy_process_group()
    return str(caught.value), ended


def test_killed_peer(tmp_path: Path) -> None:
    ranks = Ranks(waits_for_the_dead, 3, str(tmp_path))
    for rank in range(3):
        wait_for_file(tmp_path / f"ready{rank}")
    time.sleep(0.3)
    killed = time.time()
    os.kill(ranks.pids[2], signal.SIGKILL)
    for outcome in ranks.outcomes(victims=[2])[:2]:
        assert outcome.error is None, outcome.error
        assert outcome.value[1] - killed < PROMPT_S


def leaves_with_receives(rank: int, world_size: int) -> float:
    dist.barrier()
    work = dist.irecv(torch.ones(5), 1 - rank)
    began = time.monotonic()
    dist.destroy_process_group()
    seconds = time.monotonic() - began
    with pytest.raises(dist.DistBackendError):
        work.wait()
    return seconds


def test_receives_in_flight_at_destroy() -> None:
    assert max(run(leaves_with_receives, 2)) < PROMPT_S


def coalescing_around_abort(rank: int, world_size: int) -> None:
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    work = dist.irecv(torch.ones(3), 1 - rank, tag=1)
    if rank == 1:
        dist.send(torch.ones(1), 0, tag=2)
    else:
        dist.recv(torch.ones(1), 1, tag=2)
        backend._start_coalescing()
        backend.abort()
        backend._end_coalescing().wait()
    with pytest.raises(dist.DistBackendError, match="rank 0 aborted"):
        work.wait(timedelta(seconds=20))


def test_coalescing_around_abort() -> None:
    run(coalescing_around_abort, 2)
