"""What a measurement ran on, for its record."""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path

import torch

_PREFIXES = ("UCXRING_", "UCX_", "GLOO_", "OMP_")


def processor() -> str:
    """The name of the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _without_folder(word: str) -> str:
    """Where a person keeps files is nobody else's business."""
    return Path(word).name if os.path.isabs(word) else word


def describe() -> dict[str, object]:
    """Machine, versions, settings and the load when the run began."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "load_average": os.getloadavg()[0],
        "command": " ".join(["ucxring", *map(_without_folder, sys.argv[1:])]),
        "environment": {name: value for name, value in os.environ.items() if name.startswith(_PREFIXES)},
    }
