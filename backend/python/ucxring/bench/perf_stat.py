"""Counts what the kernel and the processor did for this process, with Linux `perf stat`, where it is installed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

EVENTS = ("task-clock", "context-switches", "cpu-migrations", "instructions", "cycles")
ATTACH_SECONDS = 0.5


def unavailable() -> str | None:
    """Why nothing can be counted here; None when it can."""
    if not shutil.which("perf"):
        return "`perf` is not installed (Debian package linux-perf)"
    probe = subprocess.run(["perf", "stat", "-e", "task-clock", "true"], capture_output=True, text=True, check=False)
    return f"`perf stat` does not work here: {probe.stderr.strip()}" if probe.returncode else None


def parse(text: str) -> dict[str, float]:
    """The counts in the output of `perf stat -x,`; events that the machine lacks are left out."""
    counts = {}
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) > 2 and fields[0].replace(".", "", 1).isdigit():
            counts[fields[2].split(":")[0]] = float(fields[0])
    return counts


class Counter:
    """A context manager that counts events of all threads of process `pid`; `counts` is filled when it is left."""

    def __init__(self, pid: int) -> None:
        self.counts: dict[str, float] = {}
        self._pid = pid

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        self._output = Path(self._folder.name) / "counts"
        words = ["perf", "stat", "-x,", "-e", ",".join(EVENTS), "-o", str(self._output), "-p", str(self._pid)]
        self._perf = subprocess.Popen(words)
        time.sleep(ATTACH_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._perf.send_signal(signal.SIGINT)
        self._perf.wait()
        if self._output.exists():
            self.counts = parse(self._output.read_text())
        self._folder.cleanup()
