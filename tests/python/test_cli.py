from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ucxring import cli, demo, launch
from ucxring.bench import load, namespaces, perf_stat, report
from ucxring.bench.plan import Plan, bus_factor, parse_sizes, show_size
from ucxring.examples.digits import Result

TINY = ["--trials", "2", "--sizes", "4,1000"]


def ucxring(*arguments: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ucxring", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "required: command"),
        (["dance"], "invalid choice"),
        (["bench"], "required: collective"),
        (["bench", "all_to_none"], "invalid choice"),
        (["bench", "all_reduce", "--ranks", "1"], "must be at least 2"),
        (["bench", "overlap", "--ranks", "0"], "must be at least 1"),
        (["bench", "all_reduce", "--backends", "gloo,gloo"], "each once"),
        (["bench", "all_reduce", "--sizes", "4:2"], "first ≤ last"),
        (["bench", "all_reduce", "--sizes", "four"], "not a number of bytes"),
        (["bench", "all_reduce", "--dtype", "float7"], "invalid choice"),
        (["bench", "all_reduce", "--rate", "1gbit"], "give --namespaces N too"),
        (["bench", "all_reduce", "--namespaces", "2", "--ranks", "3"], "starts N ranks"),
        (["bench", "all_reduce", "--namespaces", "2", "--rate", "fast"], "such as 1gbit"),
        (["demo", "--ranks", "0"], "must be at least 1"),
    ],
)
def test_bad_arguments_are_explained(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_code:
        cli.main(arguments)
    assert exit_code.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("4:64", [4, 16, 64]),
        ("1K:3K:2", [1024, 2048, 3072]),
        ("8,1M", [8, 1 << 20]),
        ("5:5", [5]),
    ],
)
def test_sizes(text: str, sizes: list[int]) -> None:
    assert parse_sizes(text) == sizes


def test_shown_sizes_are_exact() -> None:
    assert [show_size(size) for size in (4, 1000, 1024, 65536, 3 << 20)] == ["4", "1000", "1K", "64K", "3M"]


def test_bus_factor_is_that_of_the_best_algorithm() -> None:
    assert bus_factor("all_reduce", 4) == 1.5
    assert bus_factor("all_gather", 4) == 0.75
    assert bus_factor("broadcast", 4) == 1.0


def test_rates() -> None:
    assert namespaces.bits_per_second("1gbit") == 1e9
    assert namespaces.bits_per_second("2.5mbit") == 2.5e6


def test_perf_output_is_read() -> None:
    text = (
        "# started\n\n12.5,msec,task-clock,12.5,100.00,,\n<not supported>,,cycles:u,0,100,,\n7,,context-switches,,,,\n"
    )
    assert perf_stat.parse(text) == {"task-clock": 12.5, "context-switches": 7.0}


def sample(backend: str, trial: int, seconds: float) -> dict[str, object]:
    return {
        "backend": backend, "size": 1 << 20, "trial": trial, "iterations": 2, "seconds": seconds, "cpu_seconds": 0.5,
    }  # fmt: skip


def test_report_takes_the_slowest_rank_and_the_median() -> None:
    plan = Plan("all_reduce", 2, ["a", "b"], [1 << 20])
    fast = [sample("a", 0, 2.0), sample("b", 0, 8.0), sample("a", 1, 2.0), sample("a", 2, 4.0)]
    slow = [sample("a", 0, 4.0), sample("b", 0, 6.0), sample("a", 1, 6.0), sample("a", 2, 2.0)]
    rows = report.rows(plan, [fast, slow], link_bytes=1e6)
    assert [row.median_seconds for row in rows] == [2.0, 4.0]
    assert rows[0].least_seconds == 2.0
    assert rows[0].busbw == pytest.approx((1 << 20) / 2.0)
    assert rows[0].line_share == pytest.approx((1 << 20) / 2.0 / 1e6)
    assert rows[1].cpu_seconds_per_gb == pytest.approx(1.0 / (2 * (1 << 20) / 1e9))
    assert report.ratios(plan, rows) == {1 << 20: {"b": 2.0}}


def result(backend: str = "ucxring", **changes: object) -> Result:
    values: dict[str, object] = {
        "backend": backend, "world_size": 2, "accuracy": 0.99, "seconds": 1.0,
        "step_losses": [2.0, 1.0], "epoch_losses": [1.5], "parameter_hashes": ["a", "a"],
    }  # fmt: skip
    return Result(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "failed"),
    [
        ({}, None),
        ({"accuracy": 0.96}, "test accuracy, ucxring"),
        ({"parameter_hashes": ["a", "b"]}, "replicas bit-identical on all 2 ranks"),
        ({"step_losses": [2.0, 1.1]}, "largest loss difference to one process"),
        ({"step_losses": [2.0, math.nan]}, "largest loss difference to one process"),
        ({"step_losses": [2.0]}, "largest loss difference to Gloo"),
    ],
)
def test_demo_notices_failures(changes: dict[str, object], failed: str | None) -> None:
    found = demo.checks(result(**changes), result("gloo"), result("none", world_size=1))
    assert all(check.passed for check in found) == (failed is None)
    if failed:
        assert failed in [check.what for check in found if not check.passed]


def test_a_failing_rank_is_named_and_ends_the_others(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, time\n"
        f"pathlib.Path({str(tmp_path)!r}, os.environ['RANK']).write_text(str(os.getpid()))\n"
        "time.sleep(0.5 if os.environ['RANK'] == '1' else 60)\n"
        "raise SystemExit(3)\n"
    )
    with pytest.raises(launch.RankFailedError, match="rank 1 ended with exit code 3"):
        launch.run(launch.Job(["-c", program], 3))
    for rank in "02":
        pid = int((tmp_path / rank).read_text())
        assert not Path(f"/proc/{pid}").exists()


def test_a_late_rank_is_named() -> None:
    program = "import os, time; time.sleep(60 if os.environ['RANK'] == '0' else 0)"
    with pytest.raises(launch.RankFailedError, match=r"ranks \[0\] did not finish within 1 s"):
        launch.run(launch.Job(["-c", program], 2, timeout=1.0))


def test_busy_loops_end_with_the_block() -> None:
    before = set(children())
    with load.on_every_core():
        assert len(set(children()) - before) == len(os.sched_getaffinity(0))
    assert set(children()) == before


def children() -> list[int]:
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(pid) for pid in text.split()]


@pytest.mark.parametrize("backends", ["gloo", "ucxring,gloo"])
def test_bench_writes_table_and_record(backends: str, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    done = ucxring("bench", "all_reduce", "--backends", backends, "--json", str(file), *TINY)
    assert done.returncode == 0, done.stderr
    assert "all_reduce sum, float32, 2 ranks" in done.stdout
    record = json.loads(file.read_text())
    assert [(row["size"], row["backend"]) for row in record["rows"]] == [
        (size, backend) for size in (4, 1000) for backend in backends.split(",")
    ]
    assert all(row["median_seconds"] > 0 for row in record["rows"])
    assert record["conditions"]["torch"]


@pytest.mark.parametrize("collective", ["broadcast", "all_gather", "reduce_scatter", "barrier"])
def test_bench_of_each_collective(collective: str) -> None:
    done = ucxring("bench", collective, "--ranks", "3", "--dtype", "int32", *TINY)
    assert done.returncode == 0, done.stderr
    assert "gloo ÷ ucxring" in done.stdout


def test_bench_names_a_backend_that_does_not_exist() -> None:
    done = ucxring("bench", "all_reduce", "--backends", "smoke", *TINY)
    assert done.returncode == 1
    assert "smoke" in done.stderr


def test_info_and_settings() -> None:
    info = ucxring("info")
    assert info.returncode == 0, info.stderr
    assert "torch found" in info.stdout
    settings = ucxring("settings")
    assert settings.returncode == 0, settings.stderr
    assert "UCXRING_SLICE_BYTES" in settings.stdout


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("LANES", "many", 'UCXRING_LANES="many"'),
        ("LANE", "3", "did you mean UCXRING_LANES"),
        ("ALGORITHM", "all_reduce:x", 'no algorithm "x"'),
    ],
)
def test_settings_say_what_is_wrong(
    name: str, value: str, complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"UCXRING_{name}", value)
    assert cli.main(["settings"]) == 1
    written = capsys.readouterr()
    assert "UCXRING_SLICE_BYTES" in written.out
    assert complaint in written.err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_code:
        cli.main(["--version"])
    assert exit_code.value.code == 0
    assert capsys.readouterr().out.startswith("ucxring 0.")
