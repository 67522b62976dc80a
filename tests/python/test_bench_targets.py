"""Targets: data, and what becomes of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ucxring import cli
from ucxring.bench import run, targets
from ucxring.bench.plan import COLLECTIVES, DTYPES, parse_size, parse_sizes
from ucxring.bench.targets import judge


def record(ratios: dict[str, dict[str, float]], seconds: float = 1e-5, **more: Any) -> dict[str, Any]:
    rows = [{"size": int(size), "backend": "ucxring", "median_seconds": seconds} for size in ratios if size]
    return {"rows": rows, "ratios": ratios, **more}


RECORDS = {
    "one": record({"1024": {"gloo": 50.0, "fake": 0.5}, "2048": {"gloo": 20.0}}, geometric_means={"gloo": 31.6}),
    "slow": record({"1024": {}}, seconds=3e-5),
    "training": record({"": {"gloo": 1.25}}),
}


@pytest.mark.parametrize(
    ("target", "found", "reached"),
    [
        ({"run": "one", "size": "1K", "than": "gloo", "at_least": 40}, 50.0, True),
        ({"run": "one", "size": "1K", "than": "gloo", "at_least": 51}, 50.0, False),
        ({"run": "one", "size": "each", "than": "gloo", "at_least": 40}, 20.0, False),
        ({"run": "one", "size": "mean", "than": "gloo", "at_least": 30}, 31.6, True),
        ({"run": "one", "size": "1K", "than": "fake", "at_most": 1.4}, 2.0, False),
        ({"run": "one", "size": "1K", "at_most": 15}, 10.0, True),
        ({"run": "slow", "size": "1K", "than_run": "one", "at_most": 2.5}, 3.0, False),
        ({"run": "training", "than": "gloo", "at_most": 0.9}, 0.8, True),
    ],
)
def test_judgement(target: dict[str, Any], found: float, reached: bool) -> None:
    verdict = judge(target, RECORDS, {})
    assert verdict.found == pytest.approx(found)
    assert verdict.reached is reached


def test_what_was_not_measured_is_missed() -> None:
    target = {"run": "gone", "size": "1K", "at_most": 15}
    verdict = judge(target, RECORDS, {"gone": "needs 64 cores"})
    assert (verdict.found, verdict.reached, verdict.why) == (None, False, "needs 64 cores")
    assert "no run 'gone'" in judge(target, RECORDS, {}).why
    assert judge({**target, "run": "one", "than_run": "gone"}, RECORDS, {}).found is None


def test_targets_name_runs_sizes_and_systems_that_exist() -> None:
    asked = targets.load()
    known = {each["name"]: each for kind in ("run", "peers", "training") for each in asked[kind]}
    assert len(known) == sum(len(asked[kind]) for kind in ("run", "peers", "training"))
    for each in [*asked["run"], *asked["peers"]]:
        assert each["collective"] in COLLECTIVES
        assert each.get("dtype", "float32") in DTYPES
    for target in asked["target"]:
        assert set(target) <= {"run", "size", "than", "than_run", "at_least", "at_most"}
        assert ("at_least" in target) != ("at_most" in target)
        measured = known[target["run"]]
        if target.get("size", "each") not in ("each", "mean"):
            assert parse_size(target["size"]) in parse_sizes(measured["sizes"])
        systems = [*measured.get("backends", ["gloo", "best"]), *(["memcpy"] if measured.get("memcpy") else [])]
        assert target.get("than") in [None, *systems]
        assert target.get("than_run") in [None, *known]
    assert set(known) == {target["run"] for target in asked["target"]}


def test_cores_are_limited_for_a_while() -> None:
    before = os.sched_getaffinity(0)
    with targets.limited(1):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before
    with pytest.raises(targets.UnmeasuredError, match="needs 10000 cores"), targets.limited(10000):
        pass


def test_the_command_prints_and_writes_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def impossible(asked: dict[str, Any]) -> dict[str, Any]:
        if asked["name"] == "good":
            return RECORDS["one"]
        raise run.ImpossibleError("no such device")

    asked = {
        "run": [{"name": "good"}, {"name": "bad"}],
        "target": [
            {"run": "good", "size": "1K", "than": "gloo", "at_least": 40},
            {"run": "bad", "size": "1K", "at_most": 1},
        ],
    }
    monkeypatch.setattr(targets, "load", lambda: asked)
    monkeypatch.setattr(targets, "measure_run", impossible)
    file = tmp_path / "targets.json"
    assert cli.main(["bench", "targets", "--json", str(file)]) == 1
    output = capsys.readouterr().out
    assert "reached" in output
    assert "MISSED" in output
    document = json.loads(file.read_text())
    assert [each["reached"] for each in document["targets"]] == [True, False]
    assert document["unmeasured"] == {"bad": "no such device"}
    asked["target"].pop()
    assert cli.main(["bench", "targets"]) == 0
