"""Keeps every core busy beside a measurement, as other programs of a machine would."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

LONGEST_SECONDS = 900.0


def burn(core: int, seconds: float) -> None:
    """Computes on `core` until the time is over or the process that asked for it is gone."""
    os.sched_setaffinity(0, {core})
    parent = os.getppid()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and os.getppid() == parent:
        sum(range(20_000))


@contextlib.contextmanager
def on_every_core(wanted: bool = True) -> Iterator[None]:
    """A busy loop on each core that this process may use, while the block runs. Nothing when not `wanted`."""
    cores = sorted(os.sched_getaffinity(0)) if wanted else []
    loops: list[subprocess.Popen[bytes]] = []
    try:
        for core in cores:
            loops.append(subprocess.Popen([sys.executable, "-S", __file__, str(core), str(LONGEST_SECONDS)]))
        yield
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()


if __name__ == "__main__":
    burn(int(sys.argv[1]), float(sys.argv[2]))
