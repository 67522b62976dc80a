"""Comparing with MPI libraries, without one: programs that only look like them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ucxring import cli
from ucxring.bench.peers import catalogue, compare, programs
from ucxring.bench.peers.catalogue import PEERS, Peer
from ucxring.bench.peers.programs import ProgramError, Results, Task, Times

TASK = Task("all_reduce", 2, 8, 16, 2)


def scripted(*seconds: float) -> Callable[[], Results]:
    """Takes so long in each round for 8 bytes, and ten times as long for 80."""
    values = iter(seconds)

    def measure() -> Results:
        value = next(values)
        return {8: Times(value, value / 2), 80: Times(10 * value, 5 * value)}

    return measure


def broken_after(rounds: int) -> Callable[[], Results]:
    left = iter(range(rounds))

    def measure() -> Results:
        if next(left, None) is None:
            raise ProgramError("it broke")
        return {8: Times(1.0, 1.0)}

    return measure


def test_systems_take_turns() -> None:
    order: list[str] = []

    def noting(name: str) -> Callable[[], Results]:
        return lambda: order.append(name) or {8: Times(1.0, 1.0)}  # type: ignore[func-returns-value]

    compare.alternate("own", {name: noting(name) for name in ("own", "a", "b")}, 3)
    assert order == ["own", "a", "b", "b", "a", "own", "own", "a", "b"]


def test_ratios_are_those_of_one_round() -> None:
    # The machine becomes four times slower in the second round: medians of all rounds would say 2.
    made = compare.alternate("own", {"own": scripted(1, 4, 4), "a": scripted(2, 8, 12), "b": scripted(3, 4, 8)}, 3)
    found = compare.ratios(made, ["a", "b"])
    assert found[8] == {"a": 2.0, "b": 2.0, "best": 2.0}
    assert list(found) == [8, 80]
    assert compare.geometric_means({1: {"a": 2.0}, 2: {"a": 8.0}}) == {"a": pytest.approx(4.0)}


def test_the_best_peer_is_that_of_each_round() -> None:
    made = compare.alternate("own", {"own": scripted(1, 1, 1), "a": scripted(2, 6, 3), "b": scripted(5, 2, 4)}, 3)
    assert compare.ratios(made, ["a", "b"])[8]["best"] == 2.0
    assert compare.ratios(made, ["a"])[8]["best"] == 3.0


def test_rows_hold_the_median_and_the_least() -> None:
    made = compare.alternate("own", {"own": scripted(1, 4, 2), "a": scripted(2, 8, 12)}, 3)
    first = compare.rows(made, "all_reduce", 2)[0]
    assert (first["size"], first["backend"]) == (8, "own")
    assert (first["median_seconds"], first["least_seconds"]) == (2.0, 0.5)
    assert first["busbw"] == 4.0


def test_a_failing_peer_does_not_stop_the_others() -> None:
    made = compare.alternate("own", {"own": scripted(1, 1), "a": broken_after(1), "b": scripted(2, 2)}, 2)
    assert made.systems == ["own", "b"]
    assert made.failures == {"a": "it broke"}
    assert compare.ratios(made, ["a", "b"])[8] == {"b": 2.0, "best": 2.0}


def test_nothing_goes_on_without_the_first() -> None:
    made = compare.alternate("own", {"own": broken_after(0), "a": scripted(1, 1)}, 2)
    assert (made.systems, compare.sizes(made), compare.ratios(made, ["a"])) == ([], [], {})


def document(**changes: object) -> str:
    row = {"bytes": 8, "in_place": True, "median_us": 2.0, "best_us": 1.0, "wrong": 0, **changes}
    return json.dumps({"program": "mpi_perf", "rows": [row]})


def test_a_result_is_read_between_what_launchers_say() -> None:
    assert programs.parse(f"warning: slow\n{document()}\nbye\n", "mpi_perf") == {8: Times(2e-6, 1e-6)}
    assert programs.parse(document(wrong=None), "mpi_perf")
    with pytest.raises(ProgramError, match="3 wrong elements"):
        programs.parse(document(wrong=3), "mpi_perf")
    for text in ("", "{}", "no host\n", '{"rows": [{}]}'):
        with pytest.raises(ProgramError, match="gave no result"):
            programs.parse(text, "mpi_perf")


def test_what_a_program_said_is_reported() -> None:
    with pytest.raises(ProgramError, match=r"sh ended with exit code 3:\nout\nerr"):
        programs.run(["sh", "-c", "echo out; echo err >&2; exit 3"], 60)
    with pytest.raises(ProgramError, match="could not be started"):
        programs.run(["/does/not/exist"], 60)


def test_a_late_program_is_ended_with_its_children(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with pytest.raises(ProgramError, match="did not end within"):
        programs.run(["sh", "-c", f"trap '' TERM; sleep 60 & echo $! > {file}; wait"], 0.5)
    pid = int(file.read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}/exe").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_crowded_ranks_get_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    assert catalogue.crowded(3)
    assert not catalogue.crowded(2)
    openmpi, mpich = PEERS["openmpi"], PEERS["mpich"]
    assert "mpi_yield_when_idle" in openmpi.command(Path("x"), 4, ["p"])
    assert "mpi_yield_when_idle" not in openmpi.command(Path("x"), 2, ["p"])
    assert mpich.settings(2) == {}
    assert mpich.settings(4)["MPIR_CVAR_POLLS_BEFORE_YIELD"] == "1"
    assert mpich.command(Path("x"), 4, ["p", "q"])[-4:] == ["-n", "4", "p", "q"]
    assert PEERS["intelmpi"].environment(Path("/x"), 2)["I_MPI_ROOT"] == "/x"


def program(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two libraries that are installed: one that works, and one whose launcher fails."""
    made = {name: Peer(name=name, packages=(name,), launcher="mpiexec") for name in ("mpich", "openmpi")}
    monkeypatch.setattr("ucxring.bench.peers.run.PEERS", made)
    monkeypatch.setattr(programs, "compile_program", lambda folder: folder / "mpi_perf")
    monkeypatch.setattr(programs, "versions", lambda folder: f"{folder.name} 1.0")
    for name in made:
        header = tmp_path / name / "include" / "mpi.h"
        header.parent.mkdir(parents=True)
        header.touch()
    rows = [{"bytes": size, "median_us": 4.0, "best_us": 3.0, "wrong": 0} for size in (8, 16)]
    program(tmp_path / "mpich" / "bin" / "mpiexec", f"echo '{json.dumps({'rows': rows})}'")
    program(tmp_path / "openmpi" / "bin" / "mpiexec", "echo no network; exit 5")
    return tmp_path


def own_program(folder: Path) -> Path:
    rows = [{"bytes": size, "median_us": 2.0, "best_us": 1.0, "wrong": 0} for size in (8, 16)]
    write = f"for last; do :; done; echo '{json.dumps({'rows': rows})}' > \"$last\"; echo '# a table'"
    return program(folder / "ucxring_perf", write)


def test_a_comparison_from_the_command_line(peers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, prefix = peers / "result.json", peers / "picture"
    words = ["bench", "--peers", "mpich", "--sizes", "8:16:2", "--rounds", "2", "--peer-dir", str(peers)]
    words += ["--perf-program", str(own_program(peers)), "--json", str(file), "--picture", str(prefix), "--memcpy"]
    assert cli.main(words) == 0
    output = capsys.readouterr().out
    assert "2 µs (1 µs)" in output
    assert "2.00 ×" in output
    record = json.loads(file.read_text())
    assert record["ratios"] == {size: {"memcpy": 1.0, "mpich": 2.0, "best": 2.0} for size in ("8", "16")}
    assert record["geometric_means"]["best"] == pytest.approx(2.0)
    assert record["conditions"]["setups"]["mpich"]["version"] == "mpich 1.0"
    assert (peers / "picture.png").is_file()


def test_a_failing_peer_makes_the_exit_code(peers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "--peers", "openmpi,mpich", "--sizes", "8:16:2", "--rounds", "1", "--peer-dir", str(peers)]
    assert cli.main([*words, "--perf-program", str(own_program(peers))]) == 1
    output = capsys.readouterr().out
    assert "openmpi FAILED: openmpi ended with exit code 5:\nno network" in output
    assert "mpich" in output.split("alternating rounds")[1]


def test_a_missing_program_is_explained(peers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "--peers", "mpich", "--peer-dir", str(peers), "--perf-program", str(peers / "none")]
    assert cli.main(words) == 1
    assert "none is not a program" in capsys.readouterr().out


def test_the_same_options_for_both_programs() -> None:
    words = Task("all_reduce", 2, 8, 64, 8).arguments
    assert words[:8] == ["all_reduce", "-b", "8", "-e", "64", "-f", "8", "--in-place"]
    assert "--out-of-place" in Task("all_gather", 2, 8, 64, 8).arguments
    assert not {"--in-place", "--out-of-place"} & set(Task("barrier", 2, 8, 64, 8).arguments)
