"""Numbers as 8-bit codes in blocks that share a scale.

A message holds rows of numbers, one row per rank: the int8 codes of a row, then the bytes of the float32 scales of its
blocks. A number is its code times the scale of its block, which is the largest magnitude in it over 127. Codes are
rounded to nearest, ties to even.

On the CPU the work goes over chunks that stay in the cache between the operations on them: a third less time than
operations on whole buckets, and no temporary memory of a bucket's size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

LARGEST_CODE = 127
LEAST_MAGNITUDE = 1e-35  # of a block that is not sent as zeros: the reciprocal of its scale must be finite in float32
SCALE_BYTES = 4
CHUNK = 1 << 17  # numbers, 512 KiB; half and twice of it are slower


class _Chunk(NamedTuple):
    row: int
    blocks: slice
    numbers: slice


class Blocks:
    """How `count` numbers are laid out in messages of `rows` rows; the last row is filled up with zeros.

    Args:
        count: numbers, which are float32 in a flat tensor.
        rows: parts of equal length, of whole blocks, that they are cut into.
        size: numbers of a block, a multiple of 4.
        device: where numbers and messages are.

    """

    def __init__(self, count: int, rows: int, size: int, device: torch.device) -> None:
        self.count, self.rows, self.size, self.device = count, rows, size, device
        self.blocks = max(1, -(-count // (rows * size)))
        """Blocks of a row."""
        self.length = self.blocks * size
        """Numbers of a row."""
        self.step = max(1, CHUNK // size if device.type == "cpu" else self.blocks)
        """Blocks of a chunk; a row on devices that are slow at small operations."""

    def new_message(self) -> torch.Tensor:
        """An empty message: int8, (rows, bytes of a row)."""
        return torch.empty(self.rows, self.length + SCALE_BYTES * self.blocks, dtype=torch.int8, device=self.device)

    def codes(self, message: torch.Tensor) -> torch.Tensor:
        """The codes in `message`, a view: int8, (rows, blocks, numbers)."""
        return message[:, : self.length].view(message.shape[0], self.blocks, self.size)

    def scales(self, message: torch.Tensor) -> torch.Tensor:
        """The scales in `message`, a view: float32, (rows, blocks)."""
        return message[:, self.length :].view(torch.float32)

    def encode(self, values: torch.Tensor, message: torch.Tensor, added: torch.Tensor | None = None) -> None:
        """Writes `values`, plus `added`, into `message` and leaves in `values` their error: what a reader does not get.

        The scale of a block with NaN is NaN, with infinity infinity; so is what a reader gets.
        """
        codes, scales = self.codes(message), self.scales(message)
        for chunk in self.chunks():
            part = values[chunk.numbers]
            if added is not None:
                part.add_(added[chunk.numbers])
            padded = self._padded(part, chunk)
            _encode(padded, codes[chunk.row, chunk.blocks], scales[chunk.row, chunk.blocks])
            if padded.data_ptr() != part.data_ptr():
                part.copy_(padded.view(-1)[: part.numel()])

    def decode(self, message: torch.Tensor, values: torch.Tensor) -> None:
        """Writes the numbers of `message` to `values`, of any real floating type."""
        codes, scales = self.codes(message), self.scales(message)
        for chunk in self.chunks():
            part, part_codes = values[chunk.numbers], codes[chunk.row, chunk.blocks]
            in_place = part.dtype == torch.float32 and part.numel() == part_codes.numel()
            decoded = part.view_as(part_codes).copy_(part_codes) if in_place else part_codes.to(torch.float32)
            decoded.mul_(scales[chunk.row, chunk.blocks].unsqueeze(1))
            if not in_place:
                part.copy_(decoded.view(-1)[: part.numel()])

    def sum_rows(self, message: torch.Tensor, factor: float, total: torch.Tensor) -> None:
        """Writes the sum of all rows of `message`, times `factor`, to `total`: float32, as long as a row."""
        codes, scales = self.codes(message), self.scales(message) * factor
        for first in range(0, self.blocks, self.step):
            span = slice(first, first + self.step)
            part = total.view(self.blocks, self.size)[span]
            part.copy_(codes[0, span]).mul_(scales[0, span].unsqueeze(1))
            for row in range(1, self.rows):
                part.addcmul_(codes[row, span].to(torch.float32), scales[row, span].unsqueeze(1))

    def chunks(self) -> Iterator[_Chunk]:
        """All numbers in turn, and the rows that are padding only: with no numbers."""
        for row in range(self.rows):
            for first in range(0, self.blocks, self.step):
                last = min(first + self.step, self.blocks)
                begin = min(row * self.length + first * self.size, self.count)
                end = min(row * self.length + last * self.size, self.count)
                yield _Chunk(row, slice(first, last), slice(begin, end))

    def _padded(self, part: torch.Tensor, chunk: _Chunk) -> torch.Tensor:
        """`part` as (blocks, numbers), with zeros behind if it is shorter."""
        length = (chunk.blocks.stop - chunk.blocks.start) * self.size
        if part.numel() < length:
            part = torch.cat([part, part.new_zeros(length - part.numel())])
        return part.view(-1, self.size)


def _encode(values: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> None:
    # Two reductions without a temporary are faster than abs().amax().
    largest = torch.maximum(values.amax(1), values.amin(1).neg_()).clamp_(min=LEAST_MAGNITUDE)
    steps = largest.div_(LARGEST_CODE).unsqueeze(1)
    scales.copy_(steps.squeeze(1))
    rounded = values.mul(steps.reciprocal()).round_()
    codes.copy_(rounded)
    values.addcmul_(rounded, steps, value=-1)
