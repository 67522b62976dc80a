"""C++ sources are as clang-format leaves them (the release that requirements-dev.txt pins)."""

import pathlib
import subprocess
import sys

from project import CPP_SUFFIXES, ROOT, project_files

CLANG_FORMAT = pathlib.Path(sys.executable).parent / "clang-format"


def test_clang_format_changes_nothing() -> None:
    sources = [str(path) for path in project_files(*CPP_SUFFIXES)]
    command = [str(CLANG_FORMAT), "--dry-run", "-Werror", *sources]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert sources
    assert result.returncode == 0, result.stderr[-8000:]


def test_clang_format_would_complain() -> None:
    command = [str(CLANG_FORMAT), "--dry-run", "-Werror", "--assume-filename=a.cpp"]
    result = subprocess.run(command, cwd=ROOT, input="int  a ;\n", capture_output=True, text=True, check=False)
    assert result.returncode != 0
