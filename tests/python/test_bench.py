"""The systems that one run compares."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ucxring
from ucxring import cli
from ucxring.bench import operations, pictures, report, systems
from ucxring.bench.plan import COLLECTIVES, CUT, Plan, bus_factor, geometric


def bench(*arguments: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ucxring", "bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["all_reduce", "--backends", "gloo,memcpy"], "give --memcpy"),
        (["barrier", "--memcpy"], "a barrier moves nothing"),
        (["all_reduce", "--rounds", "3"], "--rounds does not go with a collective"),
        (["report", "--ranks", "3"], "--ranks does not go with report"),
        (["targets", "--dtype", "int8"], "--dtype does not go with targets"),
        (["--peers", "lam"], "there are openmpi, mpich, intelmpi"),
        (["--peers", "mpich,mpich"], "each once"),
        (["--peers", "mpich", "--load"], "--load does not go with --peers"),
        (["--peers", "mpich", "--sizes", "8,16,64"], "the same factor"),
        (["all_gather_list", "--peers", "mpich"], "torch.distributed alone"),
        (["broadcast", "--parts", "3"], "--parts goes with all_reduce_coalesced"),
    ],
)
def test_bad_arguments_are_explained(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_code:
        cli.main(["bench", *arguments])
    assert exit_code.value.code == 2
    assert complaint in capsys.readouterr().err


def test_nccl_without_a_device_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert cli.main(["bench", "all_reduce", "--backends", "gloo,nccl"]) == 77
    assert "nccl needs a CUDA device" in capsys.readouterr().out


def test_registered_tensors_need_their_function(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan("all_reduce", 2, ["gloo"], [4], registered=True)
    monkeypatch.setattr(ucxring, "empty", torch.empty, raising=False)
    assert systems.unavailable(plan) is None
    monkeypatch.delattr(ucxring, "empty")
    if not hasattr(ucxring, "empty"):
        assert "needs ucxring.empty" in str(systems.unavailable(plan))


def test_sizes_of_one_factor() -> None:
    assert geometric([8, 16, 32]) == (8, 32, 2)
    assert geometric([1024]) == (1024, 1024, 2)
    for sizes in ([8, 16, 24], [16, 8], [8, 8]):
        with pytest.raises(ValueError, match="same factor"):
            geometric(sizes)


def test_variants_of_a_collective_move_as_much() -> None:
    for collective in COLLECTIVES:
        base = "all_reduce" if collective in CUT else collective.removesuffix("_list")
        assert bus_factor(collective, 4) == bus_factor(base, 4)


def test_binding_spreads_ranks_over_cores() -> None:
    program = (
        "import os, sys; from ucxring.bench import systems\n"
        "cores = sorted(os.sched_getaffinity(0)); rank = int(sys.argv[1]); systems.bind(rank)\n"
        "assert os.sched_getaffinity(0) == {cores[rank % len(cores)]}"
    )
    for rank in range(len(os.sched_getaffinity(0)) + 1):
        subprocess.run([sys.executable, "-c", program, str(rank)], check=True)


@pytest.mark.parametrize("collective", ["all_reduce", "all_reduce_coalesced", "all_gather_list", "reduce_scatter_list"])
def test_all_systems_in_one_run(collective: str, tmp_path: Path) -> None:
    file, prefix = tmp_path / "result.json", tmp_path / "picture"
    done = bench(
        *(collective, "--backends", "ucxring,fake,gloo", "--memcpy", "--bind", "--trials", "2", "--sizes", "16,4K"),
        *("--json", str(file), "--picture", str(prefix)),
    )
    assert done.returncode == 0, done.stderr
    assert "memcpy ÷ ucxring" in done.stdout
    record = json.loads(file.read_text())
    expected = [(size, name) for size in (16, 4096) for name in ("ucxring", "fake", "gloo", "memcpy")]
    assert [(row["size"], row["backend"]) for row in record["rows"]] == expected
    assert all(row["median_seconds"] > 0 for row in record["rows"])
    assert set(record["ratios"]["4096"]) == {"fake", "gloo", "memcpy"}
    assert str(tmp_path) not in file.read_text()
    assert all((tmp_path / f"picture{suffix}").stat().st_size > 5000 for suffix in (".png", ".svg"))


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_is_checked(collective: str) -> None:
    """Two ranks in turn: what an operation compares with is what plain arithmetic gives, and a wrong bit is seen."""
    plan = Plan(collective, 2, ["none"], [64])
    ranks = [operations.make(plan, rank, 64, lambda count, dtype: torch.zeros(count, dtype=dtype)) for rank in (0, 1)]
    for rank, operation in enumerate(ranks):
        done = dataclasses.replace(operation, run=lambda _group, own=operation: own.result.copy_(own.exact_result()))
        done.check(None, "none")
        if operation.result.numel():
            spoiled = dataclasses.replace(operation, run=lambda _group, own=operation: own.result.fill_(99))
            with pytest.raises(RuntimeError, match="wrong elements"):
                spoiled.check(None, "none")
        else:
            assert collective == "barrier" or rank == 1


def test_only_backends_without_a_barrier() -> None:
    done = bench("all_reduce", "--backends", "fake", "--trials", "2", "--sizes", "4")
    assert done.returncode == 0, done.stderr


def record(*names: str) -> dict[str, object]:
    plan = Plan("all_reduce", 2, list(names), [1024, 1 << 20])
    rows = [
        report.Row(size, name, 1e-6 * size / 100 * (1 + index), 1e-6, 1e9, 1e9 * (1 + index), None, None)
        for size in plan.sizes
        for index, name in enumerate(names)
    ]
    about: dict[str, object] = {"processor": "Abacus", "cores": 2, "command": "ucxring bench", "rate": "1gbit"}
    return report.record(plan, rows, about, [])


def test_a_picture_names_what_it_shows(tmp_path: Path) -> None:
    png, svg = pictures.draw(record("ucxring", "gloo", "fake", "memcpy"), tmp_path / "a.b")
    assert (png.name, svg.name) == ("a.b.png", "a.b.svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    text = svg.read_text()
    for words in ("all_reduce, float32, 2 ranks, links of 1gbit, Abacus, 2 cores", "gloo", "bound: memcpy", "1M"):
        assert words in text


def test_the_same_record_gives_the_same_picture(tmp_path: Path) -> None:
    first, second = (pictures.draw(record("a", "b"), tmp_path / name) for name in ("first", "second"))
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]


def test_one_size_makes_no_line(tmp_path: Path) -> None:
    single = record("a")
    single["rows"] = [row for row in single["rows"] if row["size"] == 1024]  # type: ignore[attr-defined]
    assert pictures.draw(single, tmp_path / "none") == []
    assert list(tmp_path.iterdir()) == []
