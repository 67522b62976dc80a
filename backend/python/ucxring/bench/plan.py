"""What a benchmark run is asked to do, and how its sizes are written."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Self

COLLECTIVES = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "barrier")
DTYPES = ("float64", "float32", "float16", "bfloat16", "int8", "uint8", "int32", "int64")
OPS = ("sum", "avg", "product", "min", "max")
DEFAULT_FACTOR = 4
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class Plan:
    """One run. Sizes are bytes of the whole vector: all_gather's output, reduce_scatter's input, else the tensor."""

    collective: str
    ranks: int
    backends: list[str]
    sizes: list[int]
    dtype: str = "float32"
    op: str = "sum"
    trials: int = 21
    sample_ms: float = 5.0
    perf: bool = False

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


def show_size(size: int) -> str:
    """The shortest exact form: 65536 is "64K"."""
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def bus_factor(collective: str, ranks: int) -> float:
    """Bytes that cross each rank's link per byte of the vector, for the best algorithm (as nccl-tests counts)."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in ("all_gather", "reduce_scatter"):
        return (ranks - 1) / ranks
    return 1.0 if collective == "broadcast" else 0.0
