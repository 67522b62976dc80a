"""Gets the programs that are compared: installs each MPI library, compiles the benchmark, runs either for a result."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ucxring
from ucxring.bench.peers.catalogue import Peer

INSTALL_SECONDS = 600.0
COMPILE_SECONDS = 120.0
GRACE_SECONDS = 5.0
IN_PLACE = ("all_reduce", "broadcast")
SOURCE = Path("bench/mpi/mpi_perf.c")
PROGRAM = "ucxring_perf"


class ProgramError(RuntimeError):
    """A program could not be installed, compiled or run; the message ends with its output."""


@dataclass(frozen=True)
class Task:
    """What one run of a program measures: sizes from `first` to `last` bytes, each `factor` times the one before."""

    collective: str
    ranks: int
    first: int
    last: int
    factor: int
    dtype: str = "float32"
    trial_ms: float = 20.0  # for all trials of one size
    timeout: float = 300.0  # seconds

    @property
    def sizes(self) -> list[int]:
        """All sizes that fit below `last`."""
        sizes = [self.first]
        while sizes[-1] * self.factor <= self.last:
            sizes.append(sizes[-1] * self.factor)
        return sizes

    @property
    def arguments(self) -> list[str]:
        """For either program, which understand the same ones. In place where torch.distributed is."""
        place = ["--in-place" if self.collective in IN_PLACE else "--out-of-place"]
        sizes = ["-b", str(self.first), "-e", str(self.last), "-f", str(self.factor)]
        if self.collective == "barrier":
            place, sizes = [], ["-b", "1", "-e", "1"]
        return [self.collective, *sizes, *place, "-d", self.dtype, "--time-per-size", f"{self.trial_ms:g}"]


@dataclass(frozen=True)
class Times:
    """Seconds per call at one size, of the slowest rank: the median of a run's trials, and the least."""

    median: float
    best: float


Results = Mapping[int, Times]  # by size in bytes


def checkout() -> Path:
    """The folder with ucxring's sources. Raises `ProgramError` when the package was installed without them."""
    for folder in (*Path(__file__).resolve().parents, Path.cwd()):
        if (folder / "CMakePresets.json").is_file() and (folder / "bench").is_dir():
            return folder
    raise ProgramError("comparing with MPI needs a checkout of ucxring; run it there")


def find_program(named: Path | None) -> Path:
    """The benchmark of ucxring: the one `named`, else the package's own, else the newest built in the checkout."""
    if named:
        if not os.access(named, os.X_OK):
            raise ProgramError(f"{named} is not a program")
        return named.resolve()
    packaged = Path(ucxring.__file__).parent / "bin" / PROGRAM
    if os.access(packaged, os.X_OK):
        return packaged
    built = [path for path in checkout().glob(f"build/*/**/{PROGRAM}") if path.is_file()]
    if not built:
        raise ProgramError(f"{PROGRAM} is not built: cmake --preset release && cmake --build --preset release")
    return max(built, key=lambda path: path.stat().st_mtime)


def run(
    command: Sequence[str], timeout: float, environment: Mapping[str, str] | None = None, what: str | None = None
) -> str:
    """The output of a command. Raises `ProgramError` with what it said."""
    what = what or command[0]
    try:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    except OSError as error:
        raise ProgramError(f"{what} could not be started: {error}") from None
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise ProgramError(f"{what} did not end within {timeout:.0f} s") from None
    finally:
        _end(process)
    if process.returncode:
        said = "\n".join(text.strip() for text in (output, errors) if text.strip())
        raise ProgramError(f"{what} ended with exit code {process.returncode}:\n{said}")
    return output


def _end(process: subprocess.Popen[str]) -> None:
    """Ends what still runs: asks, so that a launcher can end its ranks, then kills all."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=GRACE_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def install(peer: Peer, folder: Path) -> None:
    """Makes an environment with the library in `folder`, once."""
    if (folder / "include" / "mpi.h").is_file():
        return
    venv.create(folder, with_pip=True, symlinks=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, *peer.packages], INSTALL_SECONDS, what=f"pip install {' '.join(peer.packages)}")


def compile_program(folder: Path) -> Path:
    """The MPI benchmark built against the library in `folder`; compiled again only when its source is newer."""
    source, program = checkout() / SOURCE, folder / "mpi_perf"
    newest = max(file.stat().st_mtime for file in source.parent.iterdir())
    if program.is_file() and program.stat().st_mtime > newest:
        return program
    library = (folder / "lib").resolve()
    words = ["gcc", "-O2", "-std=c11", f"-I{folder / 'include'}", str(source), "-o", str(program)]
    run([*words, f"-L{library}", f"-Wl,-rpath,{library}", "-lmpi"], COMPILE_SECONDS)
    return program


def versions(folder: Path) -> str:
    """The packages of the environment with their versions."""
    pip = [str(folder / "bin" / "python"), "-m", "pip", "list", "--format=json", "--disable-pip-version-check"]
    packages = json.loads(run(pip, COMPILE_SECONDS))
    return " ".join(
        f"{each['name']} {each['version']}" for each in packages if each["name"] not in ("pip", "setuptools")
    )


def parse(text: str, what: str) -> Results:
    """The times in the JSON document of a program. Raises `ProgramError` for anything else, and wrong elements."""
    try:
        rows: list[dict[str, Any]] = json.loads(text[text.index("{") : text.rindex("}") + 1])["rows"]
        wrong = sum(row["wrong"] or 0 for row in rows)
        found = {row["bytes"]: Times(row["median_us"] * 1e-6, row["best_us"] * 1e-6) for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise ProgramError(f"{what} gave no result that can be read ({error!r}):\n{text[-2000:]}") from None
    if wrong:
        raise ProgramError(f"{what} found {wrong} wrong elements")
    return found


def measure_own(command: Sequence[str], task: Task, what: str) -> Results:
    """Runs ucxring's program, which prints a table and writes the document to a file. Raises `ProgramError`."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        said = run([*command, *task.arguments, "-J", str(result)], task.timeout, what=what)
        return parse(result.read_text() if result.is_file() else said, what)


def measure_peer(command: Sequence[str], task: Task, what: str, environment: Mapping[str, str]) -> Results:
    """Runs the MPI program, which prints the document. Raises `ProgramError`."""
    return parse(run([*command, *task.arguments], task.timeout, environment, what), what)
