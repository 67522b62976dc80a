"""docs/algorithms.md has a row for every algorithm, and figures drawn from the schedules as they are."""

import os
import subprocess
import sys

from project import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from update_figures import PAGE, with_figures

PROGRAM = os.environ["UCXRING_DRAW_SCHEDULE"]


def test_figures_are_fresh() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "```mermaid" in page
    assert with_figures(page, PROGRAM) == page, f"stale; write them again: python tools/update_figures.py {PROGRAM}"


def test_every_algorithm_has_its_row() -> None:
    page = PAGE.read_text(encoding="utf-8")
    listed = subprocess.run([PROGRAM], check=True, capture_output=True, text=True).stdout.splitlines()
    names = [line.split(":")[0].split() for line in listed]
    missing = [f"{collective} {name}" for collective, name in names if f"| {collective} | [{name}](" not in page]
    assert names
    assert not missing
