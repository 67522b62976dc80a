"""Which operations take which dtypes on ucxring and on Gloo, measured, and on NCCL, from its documentation.

As a program it writes the tables of docs/compatibility.md; test_compatibility.py says when they are stale.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from harness import run

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
BEGIN, END = "<!-- measured: python tests/python/compatibility.py -->\n", "<!-- end of what is measured -->\n"
LETTERS = {"ucxring": "U", "gloo": "G", "nccl": "N"}

FLOATS = ["float64", "float32", "float16", "bfloat16"]
SMALL_FLOATS = ["float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["int8", "uint8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
COMPLEX = ["complex64", "complex128"]
ONLY_MOVED = ["complex32", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
DTYPES = [*FLOATS, *SMALL_FLOATS, *INTEGERS, "bool", *COMPLEX, *ONLY_MOVED]

# Tests of PyTorch's that execute on Gloo and cannot pass here, and why.
CANNOT = {"test_ddp_logging_data_cpu": "torch 2.13 calls every backend that it does not know itself 'custom' there"}

# ProcessGroupNCCL: its table of data types; complex tensors are shown to it as pairs by torch.distributed.
NCCL_MOVES = {*FLOATS, *SMALL_FLOATS, "int8", "uint8", "int32", "int64", "bool", *COMPLEX}
NCCL_MOVES |= {"float8_e4m3fnuz", "float8_e5m2fnuz"}
NCCL_INTEGERS = {"int8", "uint8", "int32", "int64"}
NCCL_ORDERED = {*FLOATS, *SMALL_FLOATS, *NCCL_INTEGERS, "bool"}
NCCL_REDUCES: dict[str, set[str]] = {
    "SUM": NCCL_ORDERED | {*COMPLEX},
    "AVG": {*FLOATS, *SMALL_FLOATS, *NCCL_INTEGERS, *COMPLEX},
    "PRODUCT": NCCL_ORDERED,
    "MIN": NCCL_ORDERED,
    "MAX": NCCL_ORDERED,
    "PREMUL_SUM": set(FLOATS),
}
REDUCTIONS = ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"]


def bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().view(torch.uint8).tolist())


def numbers(rank: int, dtype: torch.dtype) -> torch.Tensor:
    """Eight numbers that every dtype can hold, as are their sums and products over two ranks."""
    if dtype == torch.bool:
        return torch.tensor([True, True, False, False] * 2) if rank == 0 else torch.tensor([True, False] * 4)
    return torch.tensor([1.0, 2.0, 1.0, 4.0] * 2 if rank == 0 else [1.0, 4.0, 2.0, 1.0] * 2).to(dtype)


def moves(rank: int) -> dict[str, Callable[[torch.Tensor, list[torch.Tensor]], bool]]:
    """Operations that only move, on two ranks: each says whether what arrived is right."""

    def broadcast(own: torch.Tensor, both: list[torch.Tensor]) -> bool:
        dist.broadcast(own, 1)
        return bits(own) == bits(both[1])

    def all_gather(own: torch.Tensor, both: list[torch.Tensor]) -> bool:
        parts = [torch.empty_like(own) for _ in both]
        dist.all_gather(parts, own)
        return [bits(part) for part in parts] == [bits(part) for part in both]

    def gather(own: torch.Tensor, both: list[torch.Tensor]) -> bool:
        parts = [torch.empty_like(own) for _ in both]
        dist.gather(own, parts if rank == 0 else None)
        return rank != 0 or [bits(part) for part in parts] == [bits(part) for part in both]

    def scatter(own: torch.Tensor, both: list[torch.Tensor]) -> bool:
        output = torch.empty_like(own)
        dist.scatter(output, both if rank == 0 else None)
        return bits(output) == bits(both[rank])

    def all_to_all(own: torch.Tensor, both: list[torch.Tensor]) -> bool:
        output = torch.empty_like(own)
        dist.all_to_all_single(output, own)
        half = len(bits(own)) // 2
        return bits(output) == b"".join(bits(part)[rank * half : (rank + 1) * half] for part in both)

    def send_recv(own: torch.Tensor, both: list[torch.Tensor]) -> bool:
        if rank == 0:
            dist.send(own, 1)
            return True
        received = torch.empty_like(own)
        dist.recv(received, 0)
        return bits(received) == bits(both[0])

    functions = (broadcast, all_gather, gather, scatter, all_to_all, send_recv)
    return {function.__name__: function for function in functions}


def expected(op: str, both: list[torch.Tensor]) -> torch.Tensor:
    first, second = both
    if first.dtype == torch.bool:
        return {"BXOR": first ^ second}.get(op, first | second if op in ("SUM", "MAX", "BOR") else first & second)
    a, b = (part.to(torch.complex128 if part.is_complex() else torch.float64) for part in both)
    if op in ("BAND", "BOR", "BXOR"):
        a, b = a.to(torch.int64), b.to(torch.int64)
        return {"BAND": a & b, "BOR": a | b, "BXOR": a ^ b}[op].to(first.dtype)
    if op in ("MIN", "MAX"):
        return (torch.minimum(a, b) if op == "MIN" else torch.maximum(a, b)).to(first.dtype)
    results = {"SUM": a + b, "AVG": (a + b) / 2, "PRODUCT": a * b, "PREMUL_SUM": (a + b) * 2}
    return results[op].to(first.dtype)


def reduces(rank: int, name: str, both: list[torch.Tensor]) -> bool:
    """Whether all_reduce, reduce and reduce_scatter give the right result."""
    op = dist._make_nccl_premul_sum(2.0) if name == "PREMUL_SUM" else getattr(dist.ReduceOp, name)
    right = bits(expected(name, both))
    own = both[rank].clone()
    dist.all_reduce(own, op)
    rooted = both[rank].clone()
    dist.reduce(rooted, 0, op)
    part = torch.empty_like(own[:4])
    dist.reduce_scatter_tensor(part, both[rank].clone(), op)
    half = len(right) // 2
    return bits(own) == right and (rank != 0 or bits(rooted) == right) and bits(part) == right[rank * half :][:half]


def tried(call: Callable[[], bool]) -> bool:
    try:
        return call()
    except (RuntimeError, TypeError, ValueError):
        return False


def measure(rank: int, world_size: int) -> dict[tuple[str, str], bool]:
    """For each (operation, dtype) whether it works here."""
    works = {}
    for name in DTYPES:
        both = [numbers(each, getattr(torch, name)) for each in range(world_size)]
        for operation, call in moves(rank).items():
            works[operation, name] = tried(lambda call=call, both=both: call(both[rank].clone(), both))
        for op in REDUCTIONS if name not in ONLY_MOVED else []:
            works[op, name] = tried(lambda op=op, both=both: reduces(rank, op, both))
    return works


def measured(backend: str) -> set[tuple[str, str]]:
    """The pairs of operation and dtype that work on both ranks."""
    results = run(measure, 2, backend=backend)
    return {pair for pair in results[0] if all(result[pair] for result in results)}


def nccl() -> set[tuple[str, str]]:
    moved = {(operation, name) for operation in moves(0) for name in NCCL_MOVES}
    return moved | {(op, name) for op, names in NCCL_REDUCES.items() for name in names}


def table(columns: list[str], rows: list[str], who: dict[str, set[tuple[str, str]]]) -> str:
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name in rows:
        cells = []
        for column in columns:
            letters = [LETTERS[backend] for backend, pairs in who.items() if (column, name) in pairs]
            cells.append(" ".join(letters) or "–")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def tables(who: dict[str, set[tuple[str, str]]]) -> str:
    reducible = [name for name in DTYPES if name not in ONLY_MOVED]
    return (
        "\n### Moving\n\n" + table(list(moves(0)), DTYPES, who) + "\n### Reducing\n\n"
        "An entry means that all_reduce, reduce and reduce_scatter give the right result.\n\n"
        + table(REDUCTIONS, reducible, who)
        + "\n"
    )


def written() -> set[tuple[str, str]]:
    """What the page says that ucxring does."""
    pairs, columns = set(), []
    for line in PAGE.read_text().split(BEGIN)[1].split(END)[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| |"):
            columns = cells[1:]
        elif re.match(r"\| \w", line):
            pairs |= {(column, cells[0]) for column, cell in zip(columns, cells[1:], strict=True) if "U" in cell}
    return pairs


def main() -> None:
    who = {backend: measured(backend) for backend in ("ucxring", "gloo")} | {"nccl": nccl()}
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + tables(who) + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
