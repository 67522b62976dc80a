"""The files that belong to the project, as the lint tests see them."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CPP_SUFFIXES = (".hpp", ".cpp", ".cuh", ".cu")


def project_files(*suffixes: str, under: tuple[str, ...] = ("",)) -> list[pathlib.PurePosixPath]:
    """Files that git tracks or would track, with one of `suffixes` (all when none), below one of the folders."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    paths = [pathlib.PurePosixPath(name) for name in sorted(set(names)) if name.startswith(under)]
    return [path for path in paths if (not suffixes or path.suffix in suffixes) and (ROOT / path).is_file()]


def read(path: pathlib.PurePosixPath) -> str:
    """The text of a project file."""
    return (ROOT / path).read_text(encoding="utf-8")
