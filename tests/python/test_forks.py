"""Forked children: however they end, their parents' group goes on; they may make groups of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import multiprocessing, os, sys
from datetime import timedelta
import torch, torch.distributed as dist
import ucxring
rank, folder = int(sys.argv[1]), sys.argv[2]

def init(name):
    address = f"file://{folder}/{name}"
    dist.init_process_group("ucxring", init_method=address, rank=rank, world_size=2, timeout=timedelta(seconds=20))

def check():
    for count in (3, 300_000):
        tensor = torch.ones(count)
        dist.all_reduce(tensor)
        assert tensor[0] == 2 and tensor[-1] == 2

def refused(call):
    try:
        call()
    except ValueError as error:
        assert "belongs to the process that made it; a forked child must make its own" in str(error), error
    else:
        raise AssertionError("not refused")

def fork(end):
    pid = os.fork()
    if pid == 0:
        end()
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == EXIT_CODE

def spawn(end):
    child = multiprocessing.get_context("fork").Process(target=end)
    child.start()
    child.join()
    assert child.exitcode == EXIT_CODE

init("parents")
check()
work = dist.all_reduce(torch.ones(9), async_op=True)
work.get_future().wait()  # which starts a thread
late = dist.all_reduce(torch.ones(9), async_op=True) if rank == 0 else None
"""
LAST = """
if rank == 1:
    late = dist.all_reduce(torch.ones(9), async_op=True)
late.wait()
for _ in range(5):
    check()
dist.destroy_process_group()
print("fine")
"""

ENDINGS = {
    "exits": ("", 0),
    "raises": ("raise RuntimeError('on purpose')", 1),
    "destroys": ("dist.destroy_process_group()", 0),
    "tries the parent's group": (
        """
    refused(lambda: dist.all_reduce(torch.ones(3)))
    refused(lambda: dist.all_reduce(torch.ones(3), async_op=True))
    refused(lambda: dist.barrier())
    refused(lambda: dist.send(torch.ones(3), 1 - rank))
    refused(work.get_future)
    if late is not None:
        assert not late.is_completed()
        refused(late.wait)
    """,
        0,
    ),
}
OWN_GROUP = """
    dist.destroy_process_group()
    init("childrens")
    check()
    dist.all_reduce(torch.ones(9), async_op=True).get_future().wait()
    {end}
"""


def start(body: str, way: str, exit_code: int, folder: Path, transport: str) -> None:
    """Runs two ranks, each of which forks a child that runs `body`."""
    program = (
        PROGRAM.replace("EXIT_CODE", str(exit_code)) + f"def child():\n    pass\n    {body}\n{way}(child)\n" + LAST
    )
    environment = {**os.environ, "UCXRING_TRANSPORT": transport, "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(rank), str(folder)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for rank in ranks:
            output, errors = rank.communicate(timeout=60)
            assert rank.returncode == 0, errors
            assert output == "fine\n", errors
            assert errors == "" or exit_code != 0
    finally:
        for rank in ranks:
            rank.kill()


@pytest.mark.parametrize("transport", ["shm", "ucx"])
@pytest.mark.parametrize("way", ["fork", "spawn"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_child_leaves_its_parents_group_alone(tmp_path: Path, ending: str, way: str, transport: str) -> None:
    body, exit_code = ENDINGS[ending]
    start(body, way, exit_code, tmp_path, transport)


@pytest.mark.parametrize("end", ["", "dist.destroy_process_group()"])
def test_children_make_a_group_of_their_own(tmp_path: Path, end: str) -> None:
    start(OWN_GROUP.format(end=end), "fork", 0, tmp_path, "shm")
