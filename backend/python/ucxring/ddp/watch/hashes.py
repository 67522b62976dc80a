"""Hashes of 20 bits that ranks compare: of a batch, and of the parameters part by part.

Both are for finding accidents: equal data hash equally, different data differ but for one time in a million.
"""

from __future__ import annotations

import ctypes
import functools
import zlib
from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ucxring.ddp import nested

BITS = 20  # a step's last bucket has room for so many
SAMPLES = 1024  # elements looked at in each tensor
MOST_LEAVES = 16  # tensors and numbers looked at in each batch
MOST_TEXT = 256  # characters
_GOLDEN = 0.6180339887498949
_MULTIPLIER = 0x5851F42D4C957F2D  # odd; Knuth's MMIX generator
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@torch.no_grad()
def batch_hash(args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    """A hash of what a forward is given, of 1 … 2^20 - 1; 0: there is no tensor with elements to read in it.

    At most `SAMPLES` elements of each tensor are read, whatever its size: some microseconds per tensor. Only where they
    are all equal, as with padding or one-hot data, the tensor is read as a whole.
    """
    found = False
    value = 0
    for leaf in islice(nested.leaves((args, kwargs)), MOST_LEAVES):
        if isinstance(leaf, Tensor):
            for tensor in _plain_tensors(leaf):
                found = True
                value = zlib.crc32(_sample(tensor), value)
        elif isinstance(leaf, bool | int | float | str):
            value = zlib.crc32(repr(leaf)[:MOST_TEXT].encode(), value)
    return _short(value) if found else 0


def _plain_tensors(tensor: Tensor) -> list[Tensor]:
    """The tensors that hold its data; none where they cannot be read, or lie on several ranks."""
    tensor = tensor.detach()
    if tensor.is_nested and tensor.layout == torch.jagged:
        return [tensor.values(), tensor.offsets()]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    readable = tensor.layout == torch.strided and not tensor.is_nested and not tensor.is_quantized
    if not readable or tensor.is_meta or tensor.numel() == 0 or is_traceable_wrapper_subclass(tensor):
        return []
    return [tensor]


def _sample(tensor: Tensor) -> bytes:
    """Bytes that stand for a tensor: shape, type and a sample of elements."""
    head = f"{tuple(tensor.shape)}{tensor.dtype}".encode()
    if tensor.numel() == 0:
        return head
    numbers = _as_integers(tensor)
    sample = torch.take(numbers, _positions(numbers.numel()).to(numbers.device)).cpu()
    content = ctypes.string_at(sample.data_ptr(), sample.numel() * sample.element_size())
    if numbers.numel() > SAMPLES and bool((sample == sample[0]).all()):
        content += int(numbers.sum(dtype=torch.int64)).to_bytes(8, "little", signed=True)
    return head + content


def _as_integers(tensor: Tensor) -> Tensor:
    """The same memory as integers of the elements' size: `torch.take` does not know every type."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.view(_INTEGERS[tensor.element_size()])


@functools.lru_cache(maxsize=64)
def _positions(count: int) -> Tensor:
    """Up to `SAMPLES` positions of 0 … count - 1, spread evenly and without a period that columns of images have."""
    if count <= SAMPLES:
        return torch.arange(count)
    fractions = torch.arange(SAMPLES, dtype=torch.float64).mul_(_GOLDEN).remainder_(1.0)
    return fractions.mul_(count).long().clamp_(max=count - 1)


@torch.no_grad()
def checksum(parts: Sequence[tuple[Tensor, int, int]]) -> Tensor:
    """A checksum of bytes first … last - 1 of each tensor, as an int64 scalar on the first one's device.

    Every bit counts. It is a sum of 64-bit words, which runs as fast as memory is read and in any order; bounds are
    multiples of 8 but for a tensor's end.
    """
    device = parts[0][0].device
    total = torch.zeros((), dtype=torch.int64, device=device)
    for tensor, first, last in parts:
        memory = _flat(tensor)[first:last]
        if memory.storage_offset() % 8 != 0:
            memory = memory.clone()
        words = memory.numel() // 8 * 8
        part = memory[:words].view(torch.int64).sum() + memory[words:].view(torch.int8).sum()
        total = total * _MULTIPLIER + part.to(device, non_blocking=True)
    return total


def folded(total: int) -> int:
    """20 bits of a checksum, never 0."""
    return _short(total * _MULTIPLIER >> (64 - BITS))


def _short(value: int) -> int:
    """The lowest `BITS` bits, 1 instead of 0."""
    return value & ((1 << BITS) - 1) or 1


def _flat(tensor: Tensor) -> Tensor:
    """A tensor's memory as bytes, in the order of memory where it is dense."""
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if not tensor.is_contiguous():
        tensor = tensor.permute(sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d)))
    return tensor.reshape(-1).view(torch.uint8)
