"""Groups come and go: leaks, exits without destroy, stores used again, subprocesses, backend strings."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from harness import free_port, require_usage, run, usage
from test_collectives import usable


def cycle(rank: int, world_size: int, store: dist.Store, number: int) -> None:
    prefix = dist.PrefixStore(f"cycle{number}", store)
    dist.init_process_group("ucxring", store=prefix, rank=rank, world_size=world_size, timeout=timedelta(seconds=20))
    work = dist.all_reduce(torch.ones(5), async_op=True)
    work.get_future().wait()
    usable(world_size)
    dist.destroy_process_group()


def fifty_cycles(rank: int, world_size: int, port: int) -> None:
    store = dist.TCPStore("127.0.0.1", port, world_size, is_master=rank == 0, timeout=timedelta(seconds=20))
    for number in range(5):
        cycle(rank, world_size, store, number)
    early = usage()
    for number in range(5, 50):
        cycle(rank, world_size, store, number)
    require_usage(early)
    store.set(f"done{rank}", "1")
    if rank == 0:  # the one that serves the store leaves last
        store.wait([f"done{each}" for each in range(world_size)])


def test_fifty_cycles_leak_nothing() -> None:
    run(fifty_cycles, 3, free_port(), store="none")


def same_store_again(rank: int, world_size: int, port: int) -> None:
    store = dist.TCPStore("127.0.0.1", port, world_size, is_master=rank == 0, timeout=timedelta(seconds=20))
    for _ in range(3):
        dist.init_process_group("ucxring", store=store, rank=rank, world_size=world_size)
        usable(world_size)
        dist.destroy_process_group()
    store.set(f"done{rank}", "1")
    if rank == 0:  # the one that serves the store leaves last
        store.wait([f"done{each}" for each in range(world_size)])


def test_same_keys_of_one_store_again() -> None:
    run(same_store_again, 2, free_port(), store="none")


def many_subgroups(rank: int, world_size: int) -> None:
    usable(world_size)  # the outer group connects now, and not while descriptors are counted
    for number in range(30):
        group = dist.new_group()
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=group)
        dist.destroy_process_group(group)
        if number == 5:
            early = usage()
    require_usage(early)
    usable(world_size)


def subprocesses_do_no_harm(rank: int, world_size: int) -> None:
    work = dist.all_reduce(torch.ones(4_000_000), async_op=True)
    for _ in range(5):
        subprocess.run(["true"], check=True)
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        usable(world_size)
    work.wait()


def backends_by_string(rank: int, world_size: int) -> None:
    assert dist.is_backend_available("ucxring")
    for text in ("cpu:ucxring", "cpu:ucxring,cuda:ucxring"):
        group = dist.new_group(backend=text)
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=group)
        dist.barrier(group=group)
        assert tensor[0] == world_size
    gloo = dist.new_group(backend="gloo")
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=gloo)
    assert tensor[0] == world_size
    local = [1, 2] if rank in (1, 2) else None
    if local:
        group = dist.new_group(local, use_local_synchronization=True)
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=group)
        assert tensor.item() == 2
    objects: list[object] = [None] * world_size
    dist.all_gather_object(objects, {"rank": rank, "list": [rank] * 10**rank})
    assert objects == [{"rank": each, "list": [each] * 10**each} for each in range(world_size)]
    sent = ["hello", {"a": 1}] if rank == 0 else [None, None]
    dist.broadcast_object_list(sent, src=0)
    assert sent == ["hello", {"a": 1}]


def living(rank: int, world_size: int) -> None:
    many_subgroups(rank, world_size)
    subprocesses_do_no_harm(rank, world_size)
    backends_by_string(rank, world_size)


def test_groups_within_a_group() -> None:
    run(living, 3)


def destroyed_from_everywhere(rank: int, world_size: int) -> None:
    """Destroying while another thread waits, twice, and with a future whose callback is running."""
    errors: list[str] = []

    def wait() -> None:
        try:
            dist.all_reduce(torch.ones(3))
        except dist.DistBackendError as error:
            errors.append(str(error))

    entered = threading.Event()

    def callback(_: object) -> None:
        entered.set()

    dist.all_reduce(torch.ones(3), async_op=True).get_future().then(callback)
    assert entered.wait(5)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    if rank == 0:
        thread = threading.Thread(target=wait)
        thread.start()
        threading.Event().wait(0.3)
        dist.destroy_process_group()
        thread.join(5)
        assert not thread.is_alive()
        assert errors
    else:
        threading.Event().wait(1.5)
    backend.shutdown()
    backend.shutdown()


def test_destroy_while_a_thread_waits() -> None:
    run(destroyed_from_everywhere, 2)


ENDINGS = {
    "no destroy": "",
    "destroy": "dist.destroy_process_group()",
    "unwaited": "x = torch.ones(1_000_000); dist.all_reduce(x, async_op=True)",
    "unwaited future": "w = dist.all_reduce(torch.ones(99), async_op=True).get_future().then(lambda f: print(end=''))",
    "peer never calls": "w = dist.all_reduce(torch.ones(9), async_op=True).get_future() if rank == 0 else None",
    "sys.exit": "keep = dist.group.WORLD; import sys; sys.exit(0)",
}
PROGRAM = """
import sys
import torch, torch.distributed as dist
rank, address = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("ucxring", init_method=address, rank=rank, world_size=2)
dist.all_reduce(torch.ones(3))
"""


@pytest.mark.parametrize("ending", ENDINGS)
def test_process_ends_cleanly(tmp_path: Path, ending: str) -> None:
    program = "import ucxring\n" + PROGRAM + ENDINGS[ending] + "\n"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(rank), f"file://{tmp_path}/store"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in processes:
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert output == ""
        assert errors == ""
