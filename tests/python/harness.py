"""Runs a function on several ranks, one process each, under a watchdog.

Children come from a fork server that has imported torch, so that a group costs milliseconds and not seconds. Whatever a
rank returns comes back to the test; an exception fails the test with the rank's traceback. A rank that does not end in
time is reported as HANG, one that ends by a signal nobody sent it as ABORT.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
WATCHDOG_S = 60.0
PROMPT_S = 10.0
"""What happens at once takes less than this, also on a machine with far too much to do; deadlines are longer."""


@dataclass
class Setup:
    """How the ranks start: `store` is "file", "tcp" or "none" (the function makes its groups itself)."""

    store: str = "file"
    timeout_s: float = 20.0
    env: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] | None = None
    destroy: bool = True
    address: str = ""
    backend: str = "ucxring"


@dataclass
class Outcome:
    """What became of one rank: `error` is None, or the exception's type, text and traceback."""

    rank: int
    value: Any = None
    error: tuple[str, str, str] | None = None
    exit_code: int | None = None
    seconds: float = 0.0


_PORTS = itertools.count(os.getpid() * 31)  # tests that run at the same time begin in other places


def free_port() -> int:
    """A port that nobody listens on, below those that the kernel gives to outgoing connections."""
    for number in _PORTS:
        port = 15000 + number % 15000
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError("ports do not end")


def init_group(rank: int, world_size: int, setup: Setup) -> None:
    import torch.distributed as dist

    import ucxring

    dist.set_debug_level_from_env()
    options = None if setup.options is None else ucxring.Options(**setup.options)
    dist.init_process_group(
        setup.backend,
        init_method=setup.address,
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=setup.timeout_s),
        pg_options=options,
    )


def _child(
    pipe: Any, function: Callable[..., Any], rank: int, world_size: int, args: Sequence[Any], setup: Setup
) -> None:
    os.environ.update(setup.env)
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    began = time.monotonic()
    outcome = Outcome(rank)
    try:
        if setup.store != "none":
            init_group(rank, world_size, setup)
        began = time.monotonic()
        outcome.value = function(rank, world_size, *args)
        outcome.seconds = time.monotonic() - began
        if setup.destroy and dist.is_initialized():
            dist.destroy_process_group()
    except BaseException as error:
        outcome.seconds = time.monotonic() - began
        outcome.error = (type(error).__name__, str(error), traceback.format_exc())
    pipe.send(pickle.dumps(outcome))
    pipe.close()


class Ranks:
    """Ranks that run; `pids[rank]` for tests that kill or stop one."""

    def __init__(self, function: Callable[..., Any], world_size: int, *args: Any, **setup: Any) -> None:
        self.setup = Setup(**setup)
        self.folder = tempfile.TemporaryDirectory(prefix="ucxring-test-")
        if self.setup.store in ("tcp", "none"):
            self.setup.address = f"tcp://127.0.0.1:{free_port()}"
        else:
            self.setup.address = f"file://{self.folder.name}/store"
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "torch.distributed", "ucxring"])
        self.pipes: list[Any] = []
        self.processes: list[Any] = []
        for rank in range(world_size):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(
                target=_child, args=(sender, function, rank, world_size, args, self.setup), daemon=True
            )
            process.start()
            sender.close()
            self.pipes.append(receiver)
            self.processes.append(process)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    def outcomes(self, watchdog_s: float = WATCHDOG_S, victims: Sequence[int] = ()) -> list[Outcome]:
        """Waits for all ranks but the `victims` (which the test ended or stopped) and returns what became of them."""
        deadline = time.monotonic() + watchdog_s
        results = [Outcome(rank) for rank in range(len(self.processes))]
        problems = []
        for rank, (process, pipe) in enumerate(zip(self.processes, self.pipes, strict=True)):
            if rank in victims:
                continue
            if pipe.poll(max(0.0, deadline - time.monotonic())):  # before join: a large result fills the pipe
                with contextlib.suppress(EOFError):
                    results[rank] = pickle.loads(pipe.recv())
            process.join(max(0.0, deadline - time.monotonic()))
            if process.exitcode is None:
                problems.append(f"HANG: rank {rank} has not ended after {watchdog_s:.0f} s")
            elif process.exitcode != 0:
                problems.append(f"ABORT: rank {rank} ended with exit code {process.exitcode}")
            results[rank].exit_code = process.exitcode
        self.end()
        assert not problems, "\n".join(problems)
        return results

    def values(self, watchdog_s: float = WATCHDOG_S) -> list[Any]:
        """The value that each rank returned; fails the test when a rank raised."""
        outcomes = self.outcomes(watchdog_s)
        errors = [f"rank {outcome.rank}:\n{outcome.error[2]}" for outcome in outcomes if outcome.error]
        assert not errors, "\n".join(errors)
        return [outcome.value for outcome in outcomes]

    def end(self) -> None:
        for process in self.processes:
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
            process.join(10)
        self.folder.cleanup()


def run(
    function: Callable[..., Any], world_size: int, *args: Any, watchdog_s: float = WATCHDOG_S, **setup: Any
) -> list[Any]:
    """Runs `function(rank, world_size, *args)` on every rank of a group and returns what each returned."""
    return Ranks(function, world_size, *args, **setup).values(watchdog_s)


def usage() -> tuple[int, int]:
    """Descriptors and threads of this process."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def require_usage(early: tuple[int, int], seconds: float = 20.0) -> None:
    """Fails when this process has more descriptors or threads than `early`, but for two. Connections of a group that
    has ended close once the peers have gone, too, so this waits for them.
    """
    deadline = time.monotonic() + seconds
    while True:
        late = usage()
        if late[0] <= early[0] + 2 and late[1] <= early[1] + 2:
            return
        assert time.monotonic() < deadline, (early, late)
        time.sleep(0.05)


def say(milestone: str) -> None:
    """Tells the other ranks of the default group, whatever its state, that this one has come to `milestone`."""
    import torch.distributed as dist

    dist.distributed_c10d._get_default_store().set(f"said/{milestone}", "1")


def hear(*milestones: str) -> None:
    """Waits until somebody has said all of them."""
    import torch.distributed as dist

    store = dist.distributed_c10d._get_default_store()
    store.wait([f"said/{milestone}" for milestone in milestones], timedelta(seconds=WATCHDOG_S / 2))


def wait_for_file(path: Path, seconds: float = 20.0) -> None:
    """Waits until `path` exists: how ranks tell the test where they are."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)
