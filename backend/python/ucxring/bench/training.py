"""Trains the digits example on ucxring and on Gloo in turn, and compares the times."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from ucxring import launch
from ucxring.bench import machine

BACKENDS = ("ucxring", "gloo")


def train(backend: str, ranks: int, steps: int, file: Path) -> float:
    """Seconds of training. The ranks choose their number of threads themselves: OMP_NUM_THREADS is not set."""
    arguments = ["-m", "ucxring.examples.digits", "--backend", backend, "--steps", str(steps), "--output", str(file)]
    environment = {"GLOO_SOCKET_IFNAME": "lo"}
    without = [["env", "-u", "OMP_NUM_THREADS"]] * ranks
    launch.run(launch.Job(arguments, ranks, environment, without))
    return float(json.loads(file.read_text())["seconds"])


def measure(asked: dict[str, Any]) -> dict[str, Any]:
    """Both backends once per round, in turn. Raises `launch.RankFailedError`."""
    ranks = asked["ranks_per_core"] * len(os.sched_getaffinity(0))
    rounds: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder, launch.terminate_as_exception():
        for number in range(asked["rounds"]):
            order = BACKENDS if number % 2 == 0 else BACKENDS[::-1]
            seconds = {name: train(name, ranks, asked["steps"], Path(folder) / "result.json") for name in order}
            rounds.append(seconds)
    first, other = BACKENDS
    return {
        "plan": {"ranks": ranks, "steps": asked["steps"]},
        "conditions": machine.describe(),
        "rows": [
            {"size": 0, "backend": name, "median_seconds": statistics.median(each[name] for each in rounds)}
            for name in BACKENDS
        ],
        "ratios": {"": {other: statistics.median(each[other] / each[first] for each in rounds)}},
        "rounds": rounds,
    }
