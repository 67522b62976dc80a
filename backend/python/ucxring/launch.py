"""Starts the ranks of a job on this machine and ends them all when one fails, as torchrun does."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

POLL_SECONDS = 0.05
GRACE_SECONDS = 3.0


class RankFailedError(RuntimeError):
    """A rank ended with an exit code other than 0, or too late."""


@dataclass(frozen=True)
class Job:
    """What to start: `arguments` after the Python interpreter, once for each rank."""

    arguments: Sequence[str]
    ranks: int
    environment: Mapping[str, str] = field(default_factory=dict)
    prefixes: Sequence[Sequence[str]] = ()  # command that starts rank r, such as `ip netns exec NAME`
    master: str = "127.0.0.1"
    timeout: float = 600.0  # seconds


def free_port() -> int:
    """A TCP port that nothing listens on now."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])


def rank_environment(job: Job, rank: int, port: int) -> dict[str, str]:
    """The variables that torch.distributed reads, for one rank."""
    defaults = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    own = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(job.ranks),
        "LOCAL_WORLD_SIZE": str(job.ranks),
        "MASTER_ADDR": job.master,
        "MASTER_PORT": str(port),
    }
    return {**defaults, **os.environ, **job.environment, **own}


@contextlib.contextmanager
def terminate_as_exception() -> Iterator[None]:
    """Turns SIGTERM into SystemExit, so that what was started is cleaned up."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends what still runs: asks first, then kills."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run(job: Job) -> None:
    """Runs the job to its end. Raises `RankFailedError` naming the rank; no process is left behind either way."""
    port = free_port()
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(job.ranks):
            prefix = job.prefixes[rank] if job.prefixes else ()
            command = [*prefix, sys.executable, *job.arguments]
            processes.append(subprocess.Popen(command, env=rank_environment(job, rank, port)))
        _watch(processes, time.monotonic() + job.timeout, job.timeout)
    finally:
        stop(processes)


def run_alone(arguments: Sequence[str], timeout: float = 600.0) -> None:
    """Runs one Python process outside any group."""
    known = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    environment = {name: value for name, value in os.environ.items() if name not in known}
    command = [sys.executable, *arguments]
    process = subprocess.Popen(command, env={"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **environment})
    try:
        _watch([process], time.monotonic() + timeout, timeout)
    finally:
        stop([process])


def _watch(processes: Sequence[subprocess.Popen[bytes]], deadline: float, timeout: float) -> None:
    while any(process.poll() is None for process in processes):
        _check(processes)
        if time.monotonic() > deadline:
            late = [rank for rank, process in enumerate(processes) if process.poll() is None]
            raise RankFailedError(f"ranks {late} did not finish within {timeout:.0f} s")
        time.sleep(POLL_SECONDS)
    _check(processes)


def _check(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for rank, process in enumerate(processes):
        code = process.poll()
        if code:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise RankFailedError(f"rank {rank} {how}")
