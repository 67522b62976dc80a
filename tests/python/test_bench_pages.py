"""Kept results in the documentation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ucxring import cli
from ucxring.bench import pages, pictures

ROOT = Path(__file__).resolve().parents[2]
ABOUT = {
    "processor": "Abacus", "cores": 2, "torch": "2.13", "time": "2026-11-30T00:00:00+0000",
    "command": "ucxring bench all_reduce --json x.json --picture y --sizes 4,1K",
}  # fmt: skip
ROWS = [
    {"size": size, "backend": name, "median_seconds": seconds, "busbw": 1e9, "cpu_seconds_per_gb": None}
    for size, name, seconds in ((4, "ucxring", 1e-6), (4, "gloo", 3e-6), (1024, "ucxring", 2e-6), (1024, "gloo", 4e-4))
]
RECORD = {
    "plan": {"collective": "all_reduce", "dtype": "float32", "ranks": 2},
    "conditions": ABOUT,
    "rows": ROWS,
    "ratios": {"4": {"gloo": 3.0}, "1024": {"gloo": 200.0}},
}
PAGE = """# Figures
By hand.
<!-- report:begin short -->
old
<!-- report:end -->
Also by hand.
"""


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "short.json").write_text(json.dumps(RECORD))
    (tmp_path / "page.md").write_text(PAGE)
    return tmp_path


def report(docs: Path) -> int:
    return cli.main(["bench", "report", "--results", str(docs / "results"), "--output", str(docs / "page.md")])


def test_the_documentation_says_what_the_results_say() -> None:
    page = ROOT / "docs" / "performance.md"
    assert not pages.stale(ROOT / "docs" / "results", page), "run `ucxring bench report`"


def test_every_result_has_its_pictures() -> None:
    for name, kept in pages.load(ROOT / "docs" / "results").items():
        for suffix in pictures.SUFFIXES if pictures.drawable(kept) else ():
            assert (ROOT / "docs" / "results" / f"{name}{suffix}").is_file(), "run `ucxring bench report`"


def test_a_table_goes_between_its_markers(docs: Path) -> None:
    assert report(docs) == 0
    text = (docs / "page.md").read_text()
    assert text.startswith("# Figures\nBy hand.\n<!-- report:begin short -->\n```sh\n")
    assert text.endswith("<!-- report:end -->\nAlso by hand.\n")
    assert "old" not in text
    assert "ucxring bench all_reduce --sizes 4,1K\n" in text
    assert "| 1 KiB | 2 µs | 400 µs | 200.00 × |" in text
    assert "](results/short.svg)" in text
    assert (docs / "results" / "short.png").is_file()


def test_writing_again_changes_nothing(docs: Path) -> None:
    report(docs)
    before = {file: file.read_bytes() for file in docs.rglob("*") if file.is_file()}
    report(docs)
    assert before == {file: file.read_bytes() for file in docs.rglob("*") if file.is_file()}


def test_staleness_is_noticed(docs: Path) -> None:
    results, page = docs / "results", docs / "page.md"
    assert pages.stale(results, page)
    report(docs)
    assert not pages.stale(results, page)
    (results / "short.json").write_text(json.dumps({**RECORD, "ratios": {"4": {"gloo": 2.0}}}))
    assert pages.stale(results, page)


def test_a_new_result_gets_markers_at_the_end(docs: Path) -> None:
    (docs / "results" / "more.json").write_text(json.dumps(RECORD))
    report(docs)
    text = (docs / "page.md").read_text()
    assert text.index("Also by hand.") < text.index("<!-- report:begin more -->")
    assert text.endswith("<!-- report:end -->\n")


def test_markers_without_a_result_are_an_error(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (docs / "results" / "short.json").unlink()
    assert report(docs) == 1
    assert "results that are not there: short" in capsys.readouterr().out
    assert (docs / "page.md").read_text() == PAGE


def test_missing_places_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(tmp_path) == 1
    assert "does not exist" in capsys.readouterr().out


def test_means_setups_and_verdicts_are_shown() -> None:
    setups = {"mpich": {"version": "mpich 5.0", "settings": ["-bind-to", "core"]}}
    compared = {**RECORD, "conditions": {**ABOUT, "setups": setups}, "geometric_means": {"gloo": 24.5}}
    text = pages.markdown("x", compared, "results")
    assert "| geometric mean |  |  | 24.50 × |" in text
    assert "- mpich: mpich 5.0, `-bind-to core`" in text
    verdicts = [
        {"run": "a", "size": "1K", "wanted": "≤ 2", "found": 1.5, "reached": True, "why": ""},
        {"run": "b", "size": "", "wanted": "≥ 3", "found": None, "reached": False, "why": "no GPU\nat all"},
    ]
    text = pages.markdown("x", {"conditions": ABOUT, "targets": verdicts}, "results")
    assert "| a | 1K | ≤ 2 | 1.5 | yes |" in text
    assert "| b | – | ≥ 3 | not measured: no GPU | **no** |" in text
