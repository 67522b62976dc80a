"""Python sources: ruff's rules and format, and types."""

import subprocess
import sys

import pytest

from project import ROOT


@pytest.mark.parametrize("arguments", [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]], ids=" ".join)
def test_tool_is_content(arguments: list[str]) -> None:
    command = [sys.executable, "-m", *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
