"""Messages that a rank set aside, and groups that are made, when a process of the host dies."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from harness import PROMPT_S, Ranks

import ucxring

OPERATIONS = 24
COUNT = 256 << 10  # all operations together have more bytes than there is room


def await_file(path: str | Path) -> None:
    deadline = time.monotonic() + 30
    while not os.path.exists(path):
        assert time.monotonic() < deadline, path
        time.sleep(0.005)


def runs_ahead(rank: int, world_size: int, folder: str) -> int:
    """Returns how many operations came to a right end."""
    tensors = [torch.ones(COUNT) for _ in range(OPERATIONS)]
    dist.barrier()
    Path(folder, f"ready{rank}").touch()
    if rank == 2:
        await_file(f"{folder}/late")
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for done, (work, tensor) in enumerate(zip(works, tensors, strict=True)):
        try:
            work.wait()
        except dist.DistBackendError as error:
            return done if "lost rank 1" in str(error) else -1
        assert bool((tensor == 3).all())
    return OPERATIONS


def test_a_rank_dies_whose_messages_were_set_aside(tmp_path: Path) -> None:
    """Rank 0 has set aside what rank 1 sent ahead, and looks at it again after rank 1 has died."""
    ranks = Ranks(runs_ahead, 3, str(tmp_path), destroy=False, env={"UCXRING_ALGORITHM": "all_reduce:direct_two_shot"})
    for rank in range(3):
        await_file(tmp_path / f"ready{rank}")
    time.sleep(1)  # rank 0 sets aside
    os.kill(ranks.pids[0], signal.SIGSTOP)
    Path(tmp_path, "late").touch()
    time.sleep(0.5)  # rank 2 sends what rank 0 waits for
    os.kill(ranks.pids[1], signal.SIGKILL)
    time.sleep(0.2)
    os.kill(ranks.pids[0], signal.SIGCONT)
    for outcome in ranks.outcomes(victims=[1]):
        assert outcome.rank == 1 or (outcome.error is None and 0 <= outcome.value < OPERATIONS)


class SlowStore(dist.Store):
    """Takes its time over the last thing that rank 1 hears before its group is made."""

    def __init__(self, inner: dist.Store) -> None:
        super().__init__()
        self.inner = inner

    def set(self, key: str, value: bytes) -> None:
        self.inner.set(key, value)

    def get(self, key: str) -> bytes:
        value = self.inner.get(key)
        if key.endswith("/met/1"):
            await_file(os.environ["DEATH_SEEN"])
        return value

    def add(self, key: str, amount: int) -> int:
        return self.inner.add(key, amount)

    def check(self, keys: list[str]) -> bool:
        return self.inner.check(keys)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        self.inner.wait(keys, timeout) if timeout else self.inner.wait(keys)


def dies_while_joining(rank: int, world_size: int, folder: str) -> float:
    store: dist.Store = dist.FileStore(f"{folder}/second", world_size)
    dist.barrier()
    if rank == 0:
        ucxring.ProcessGroupUcxring(store, rank, world_size, ucxring.Options())
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(torch.ones(1), async_op=True)
    os.environ["DEATH_SEEN"] = f"{folder}/seen"

    def tell_when_seen() -> None:
        with contextlib.suppress(dist.DistBackendError):
            work.wait()
        Path(folder, "seen").touch()

    watcher = threading.Thread(target=tell_when_seen)
    watcher.start()
    second = ucxring.ProcessGroupUcxring(SlowStore(store), rank, world_size, ucxring.Options())
    began = time.monotonic()
    with pytest.raises(dist.DistBackendError, match="process has ended"):
        second.allreduce([torch.ones(4)], dist.AllreduceOptions()).wait()
    watcher.join()
    return time.monotonic() - began


def test_a_death_that_another_group_has_seen(tmp_path: Path) -> None:
    ranks = Ranks(dies_while_joining, 2, str(tmp_path), destroy=False, env={"UCXRING_PROBE": "0"})
    outcome = ranks.outcomes(victims=[0])[1]
    assert outcome.error is None, outcome.error
    assert outcome.value < PROMPT_S
