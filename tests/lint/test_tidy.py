"""clang-tidy (checks in .clang-tidy) over the torch-free layers.

A file that was clean is not looked at again until it, a header of ours that it includes, its compile command or the
list of checks changes.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from project import ROOT

LAYERS = ("transport/", "collectives/")
QUOTED_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
BUILD = pathlib.Path(os.environ.get("UCXRING_BUILD_DIR", ROOT / "build" / "dev"))
CLANG_TIDY = shutil.which("clang-tidy") or shutil.which("clang-tidy-14")


def with_headers(source: pathlib.Path) -> set[pathlib.Path]:
    """`source` and all headers of the project that it includes, directly or not."""
    seen: set[pathlib.Path] = set()
    pending = [source]
    while pending:
        path = pending.pop()
        if path not in seen and path.is_file():
            seen.add(path)
            pending += [ROOT / name for name in QUOTED_INCLUDE.findall(path.read_text())]
    return seen


def fingerprint(entry: dict[str, str]) -> str:
    """Hash of everything that decides what clang-tidy says about the source of `entry`."""
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + entry["command"].encode())
    for path in sorted(with_headers(pathlib.Path(entry["file"]))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def tidy(source: str, mark: pathlib.Path) -> str:
    """What clang-tidy says about `source`; when nothing, leaves `mark` behind."""
    command = [str(CLANG_TIDY), "-p", str(BUILD), "--quiet", "--extra-arg=-Wno-unknown-warning-option", source]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        return result.stdout + result.stderr
    mark.touch()
    return ""


@pytest.mark.timeout(1800)
@pytest.mark.skipif(CLANG_TIDY is None, reason="clang-tidy is not installed")
def test_clang_tidy_has_nothing_to_say() -> None:
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    entries = [e for e in entries if pathlib.Path(e["file"]).is_relative_to(ROOT)]
    entries = [e for e in entries if pathlib.Path(e["file"]).relative_to(ROOT).as_posix().startswith(LAYERS)]
    cache = BUILD / "clang-tidy"
    cache.mkdir(exist_ok=True)
    marks = {entry["file"]: cache / fingerprint(entry) for entry in entries}
    changed = {source: mark for source, mark in marks.items() if not mark.exists()}
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        complaints = [complaint for complaint in pool.map(tidy, changed.keys(), changed.values()) if complaint]
    assert entries
    assert not complaints, "\n".join(complaints)
