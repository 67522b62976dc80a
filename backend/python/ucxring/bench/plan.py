"""What a benchmark run is asked to do, and how its sizes are written."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import asdict, dataclass
from typing import Self

COLLECTIVES = (
    "all_reduce",
    "all_reduce_coalesced",
    "all_reduce_each",
    "all_reduce_async",
    "broadcast",
    "reduce",
    "all_gather",
    "all_gather_list",
    "reduce_scatter",
    "reduce_scatter_list",
    "gather",
    "scatter",
    "all_to_all",
    "barrier",
)
CUT = ("all_reduce_coalesced", "all_reduce_each", "all_reduce_async")  # the vector is cut into `parts` tensors
MEMCPY = "memcpy"  # the name of the bound beside the backends
DTYPES = ("float64", "float32", "float16", "bfloat16", "int8", "uint8", "int32", "int64")
OPS = ("sum", "avg", "product", "min", "max")
DEFAULT_FACTOR = 4
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class Plan:
    """One run. Sizes are bytes of the whole vector: the larger of a rank's input and output.

    `registered` takes CPU tensors from `ucxring.empty`, `bind` keeps each rank on one core, and `memcpy` measures, in
    turn with the backends, how long all ranks take to copy as many bytes from one tensor to another. `parts` is the
    number of tensors of the collectives in `CUT`.
    """

    collective: str
    ranks: int
    backends: list[str]
    sizes: list[int]
    dtype: str = "float32"
    op: str = "sum"
    trials: int = 21
    sample_ms: float = 5.0
    perf: bool = False
    registered: bool = False
    bind: bool = False
    memcpy: bool = False
    parts: int = 4

    @property
    def systems(self) -> list[str]:
        """Everything measured, in the order of columns."""
        return [*self.backends, MEMCPY] if self.memcpy else self.backends

    def to_text(self) -> str:
        """For the command line of the ranks."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The inverse of `to_text`."""
        return cls(**json.loads(text))


def parse_size(text: str) -> int:
    """Bytes: "64", "4K", "64M", "1G" (powers of 1024). Raises ValueError."""
    match = re.fullmatch(r"(\d+)([kmg]?)(?:ib?)?", text.strip().lower())
    if not match:
        raise ValueError(f"size {text!r} is not a number of bytes such as 4, 64K or 16M")
    return int(match[1]) * _UNITS[match[2]]


def parse_sizes(text: str) -> list[int]:
    """Sizes as "first:last", "first:last:factor" or "a,b,c". Raises ValueError."""
    if ":" not in text:
        return [parse_size(part) for part in text.split(",")]
    parts = text.split(":")
    if len(parts) > 3:
        raise ValueError(f"sizes {text!r} are neither first:last, first:last:factor nor a list a,b,c")
    first, last = parse_size(parts[0]), parse_size(parts[1])
    factor = int(parts[2]) if len(parts) == 3 and parts[2].isdigit() else DEFAULT_FACTOR
    if first < 1 or last < first or factor < 2:
        raise ValueError(f"sizes {text!r} need 1 ≤ first ≤ last and a factor of at least 2")
    sizes = [first]
    while sizes[-1] * factor <= last:
        sizes.append(sizes[-1] * factor)
    return sizes if sizes[-1] == last else [*sizes, last]


def geometric(sizes: list[int]) -> tuple[int, int, int]:
    """First, last and factor of sizes that each are so many times the one before. Raises ValueError."""
    factor = sizes[1] // sizes[0] if len(sizes) > 1 else 2
    if any(later != earlier * factor for earlier, later in itertools.pairwise(sizes)) or factor < 2:
        raise ValueError("each must be the one before times the same factor, as in 8:64M:2")
    return sizes[0], sizes[-1], factor


def show_size(size: int) -> str:
    """The shortest exact form: 65536 is "64K"."""
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def bus_factor(collective: str, ranks: int) -> float:
    """Bytes that cross each rank's link per byte of the vector, for the best algorithm (as nccl-tests counts)."""
    if collective.startswith("all_reduce"):
        return 2 * (ranks - 1) / ranks
    if collective.startswith(("all_gather", "reduce_scatter")) or collective in ("gather", "scatter", "all_to_all"):
        return (ranks - 1) / ranks
    return 1.0 if collective in ("broadcast", "reduce") else 0.0


def reduces(collective: str) -> bool:
    """Whether the collective combines contributions, so that `op` matters."""
    return collective.startswith(("all_reduce", "reduce"))
