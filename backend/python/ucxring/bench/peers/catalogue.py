"""The MPI libraries: what to install, and the settings that their documentation recommends inside one machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Words = tuple[str, ...]


@dataclass(frozen=True)
class Peer:
    """One MPI library. The `crowded` settings are for more ranks than cores, where whoever waits must yield."""

    name: str
    packages: Words
    launcher: str  # below the folder of its environment
    arguments: Words = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    crowded_arguments: Words | None = None  # None: as `arguments`
    crowded_variables: Mapping[str, str] = field(default_factory=dict)
    root_variable: str | None = None  # is told where the library is installed

    def command(self, folder: Path, ranks: int, program: Sequence[str]) -> list[str]:
        """What runs `program` on so many ranks of the library installed in `folder`."""
        arguments = self.arguments
        if self.crowded_arguments is not None and crowded(ranks):
            arguments = self.crowded_arguments
        return [str(folder / "bin" / self.launcher), *arguments, "-n", str(ranks), *program]

    def settings(self, ranks: int) -> dict[str, str]:
        """The variables that tune the library for so many ranks."""
        return {**self.variables, **(self.crowded_variables if crowded(ranks) else {})}

    def environment(self, folder: Path, ranks: int) -> dict[str, str]:
        """All variables that its launcher needs."""
        own = self.settings(ranks)
        if self.root_variable:
            own[self.root_variable] = str(folder)
        path = os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", os.defpath)])
        return {**os.environ, **own, "PATH": path}


def crowded(ranks: int) -> bool:
    """Whether ranks have to share cores."""
    return ranks > len(os.sched_getaffinity(0))


_OPENMPI = ("--allow-run-as-root", "--mca", "pml", "ob1", "--mca", "btl", "self,sm")

_ALL = (
    Peer(
        name="openmpi",
        packages=("openmpi",),
        launcher="mpirun",
        arguments=(*_OPENMPI, "--map-by", "core", "--bind-to", "core"),
        crowded_arguments=(
            *(*_OPENMPI, "--map-by", "core:OVERSUBSCRIBE", "--bind-to", "core:overload-allowed"),
            *("--mca", "mpi_yield_when_idle", "true"),
        ),
    ),
    Peer(
        name="mpich",
        packages=("mpich",),
        launcher="mpiexec",
        arguments=("-bind-to", "core"),
        crowded_variables={
            "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
            "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1",
            "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
            "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "1",
        },
    ),
    Peer(
        name="intelmpi",
        packages=("impi-rt", "impi-devel"),
        launcher="mpiexec.hydra",
        variables={"I_MPI_FABRICS": "shm", "I_MPI_PIN": "1", "I_MPI_PIN_PROCESSOR_LIST": "all:map=bunch"},
        root_variable="I_MPI_ROOT",
    ),
)
PEERS: Mapping[str, Peer] = {peer.name: peer for peer in _ALL}
