"""ucxring_perf as a user starts it: right results, its output, and how it ends when a rank fails."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

PROGRAM = os.environ["PERF_PROGRAM"]
MOVING = ["all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "gather", "scatter", "all_to_all"]
COLLECTIVES = [*MOVING, "barrier", "memcpy"]
TRANSPORTS = ["shm", "ucx"]
SMALL = ["-b", "1", "-e", "40K", "-f", "100", "-n", "2", "-w", "1", "--trials", "3"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, check=False)


def ranks_of(parent: int) -> list[int]:
    children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(child) for child in children.split()]


def is_running(process: int) -> bool:
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_is_right(collective: str, ranks: int, transport: str, tmp_path: pathlib.Path) -> None:
    report = tmp_path / "report.json"
    result = run(collective, *SMALL, "--ranks", str(ranks), "--transport", transport, "-J", str(report), "--cpu")
    assert result.returncode == 0, result.stderr
    assert "# Out of bounds values : 0 OK" in result.stdout
    assert f"{collective}, {ranks} ranks over {transport}" in result.stdout

    document = json.loads(report.read_text())
    expected = {"program": "ucxring_perf", "collective": collective, "dtype": "float32", "op": "sum", "ranks": ranks}
    assert expected.items() <= document.items()
    sizes = sorted({row["bytes"] for row in document["rows"]})
    assert len(sizes) == (1 if collective == "barrier" else 3)
    for row in document["rows"]:
        assert row["wrong"] == 0
        assert len(row["samples_us"]) == 3
        assert row["best_us"] == min(row["samples_us"]) > 0
        assert row["median_us"] == sorted(row["samples_us"])[1]
        assert row["iterations"] == 2


@pytest.mark.parametrize("collective", MOVING)
def test_registered_memory_is_right(collective: str) -> None:
    result = run(collective, "-b", "1M", "-e", "4M", "-f", "4", "-n", "2", "--trials", "2", "--registered")
    assert result.returncode == 0, result.stderr
    assert "# Out of bounds values : 0 OK" in result.stdout


@pytest.mark.parametrize(("dtype", "op"), [("bfloat16", "average"), ("int8", "bit_xor"), ("complex64", "product")])
def test_other_types_and_operations(dtype: str, op: str) -> None:
    result = run("reduce_scatter", *SMALL, "-d", dtype, "-o", op)
    assert result.returncode == 0, result.stderr
    line = result.stdout.splitlines()[-4].split()
    assert line[2:5] == [dtype, op, "-1"]
    assert line[8] == line[12] == "0"


def test_columns_are_those_of_nccl_tests() -> None:
    lines = run("broadcast", "-b", "1K", "-e", "1K", "-r", "1", "-c", "0", "-n", "1").stdout.splitlines()
    assert lines[4].split() == [
        "#",
        "size",
        "count",
        "type",
        "redop",
        "root",
        *["time", "algbw", "busbw", "#wrong"] * 2,
    ]
    assert lines[6].split()[:9] == ["1024", "256", "float32", "none", "1", "N/A", "N/A", "N/A", "N/A"]
    assert len(lines[6].split()) == 13


def test_time_per_size_and_algorithm() -> None:
    result = run("all_reduce", "-b", "64", "-e", "64", "--time-per-size", "20", "--algorithm", "ring", "--no-bind")
    assert result.returncode == 0, result.stderr


def test_ranks_started_from_outside(tmp_path: pathlib.Path) -> None:
    where = ["--store", str(tmp_path / "store"), "--world-size", "2", "--set", "NET_DEVICES=lo"]
    processes = [
        subprocess.Popen(
            [PROGRAM, "all_gather", *SMALL, *where, "--rank", str(rank)], stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert "0 OK" in outputs[0]
    assert outputs[1] == ""


def test_bad_usage() -> None:
    result = run("all_produce")
    assert result.returncode == 2
    assert "all_produce" in result.stderr
    assert result.stdout == ""


def test_a_rank_that_fails_ends_all() -> None:
    result = run("all_reduce", *SMALL, "-J", "/nonexistent/report.json")
    assert result.returncode == 3
    assert "rank 0: [invalid_argument] cannot write /nonexistent/report.json" in result.stderr


@pytest.mark.parametrize(
    ("victim", "number", "status"),
    [("rank", signal.SIGKILL, 3), ("parent", signal.SIGTERM, 128 + signal.SIGTERM), ("parent", signal.SIGKILL, -9)],
)
def test_nobody_is_left_behind(victim: str, number: int, status: int) -> None:
    command = [PROGRAM, "all_reduce", "-b", "8", "-e", "8", "-n", "1000000000", "-c", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        for _ in range(6):
            program.stdout.readline()
        ranks = ranks_of(program.pid)
        assert len(ranks) == 2
        os.kill(ranks[1] if victim == "rank" else program.pid, number)
        _, errors = program.communicate(timeout=30)
    assert program.returncode == status
    if victim == "rank":
        assert "rank 1 was killed by signal 9 (Killed)" in errors
    end = time.monotonic() + 10
    while any(map(is_running, ranks)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(map(is_running, ranks))
