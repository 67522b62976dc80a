"""More than 2³¹ bytes, and more than 2³¹ elements, in one call: values, and how much memory that takes besides.

Skips itself where memory is short. Each rank has one tensor, which all calls use."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from harness import run

LIMIT = 2**31
WORDS = LIMIT // 8 + 3
BYTES = LIMIT + 17
MiB = 2**20
NEEDED = 2 * 8 * WORDS + 2048 * MiB  # two ranks' tensors, and room for two processes with torch


def available_bytes() -> int:
    """Memory that this process and its children may still take: of the machine, and of their control group."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError):  # no control group, or one without a limit ("max")
        group = Path("/sys/fs/cgroup")
        left = int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
        available = min(available, left)
    return available


def parts_to_look_at(count: int, middle: int) -> list[slice]:
    """The first 100 elements, 100 on either side of `middle`, and the last 100."""
    return [slice(0, 100), slice(middle - 100, min(middle + 100, count)), slice(count - 100, count)]


def count_up(words: torch.Tensor, first: int) -> None:
    torch.arange(first, first + words.numel(), out=words)


def check_words(words: torch.Tensor, factor: int, offset: int) -> None:
    """That word i is factor · i + offset: looks at some of them, and at the sum of all, which wraps around."""
    count = words.numel()
    for part in parts_to_look_at(count, LIMIT // 8):
        assert torch.equal(words[part], factor * torch.arange(part.start, part.stop) + offset), part
    total = factor * (count * (count - 1) // 2) + count * offset
    assert (int(words.sum()) - total) % 2**64 == 0


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def reduce_words(words: torch.Tensor, rank: int) -> None:
    count_up(words, rank)
    dist.all_reduce(words)
    check_words(words, 2, 1)


def broadcast_bytes(words: torch.Tensor, rank: int) -> None:
    """More elements than 2³¹, and not a whole number of words: the last bytes must stay as they are."""
    data = words.view(torch.uint8)
    words.zero_()
    if rank == 1:
        count_up(words, 7)
    dist.broadcast(data[:BYTES], 1)
    if rank == 0:
        assert bool((data[BYTES:] == 0).all())
        count = torch.tensor([7 + words.numel() - 1])
        data[BYTES:] = count.view(torch.uint8)[BYTES % 8 :]
    check_words(words, 1, 7)


def send_bytes(words: torch.Tensor, rank: int) -> None:
    data = words.view(torch.uint8)
    if rank == 0:
        count_up(words, 3)
        dist.send(data, 1)
    else:
        words.zero_()
        dist.recv(data, 0)
    check_words(words, 1, 3)


def huge_tensors(rank: int, world_size: int) -> int:
    words = torch.zeros(WORDS, dtype=torch.int64)
    assert words.view(torch.uint8).numel() >= BYTES
    dist.barrier()
    before = peak_bytes()
    for call in (reduce_words, broadcast_bytes, send_bytes):
        call(words, rank)
    return peak_bytes() - before


def test_more_than_two_gibibytes() -> None:
    if available_bytes() < NEEDED:
        pytest.skip(f"needs {NEEDED // MiB} MiB of memory, and {available_bytes() // MiB} MiB are available")
    for more in run(huge_tensors, 2, watchdog_s=300, timeout_s=120):
        assert more < 256 * MiB, "what a call takes besides does not depend on the tensor's size"
