"""Numbers as 8-bit codes in blocks that share a scale.

A message holds rows of numbers, one row per rank: the int8 codes of a row, then the bytes of the float32 scales of its
blocks. A number is its code times the scale of its block, which is the largest magnitude in it over 127. Codes are
rounded to nearest, ties to even.
"""

from __future__ import annotations

from itertools import pairwise

import torch

from ucxring import _C
from ucxring.ddp.hooks.per_bucket import keep_if

LARGEST_CODE = 127
LEAST_MAGNITUDE = 1e-35  # of a block that is not sent as zeros: the reciprocal of its scale must be finite in float32
SCALE_BYTES = 4


def make_blocks(count: int, rows: int, size: int, device: torch.device) -> Blocks:
    """The blocks for numbers on `device`."""
    return (CpuBlocks if device.type == "cpu" else Blocks)(count, rows, size, device)


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

    def new_message(self, rows: int | None = None) -> torch.Tensor:
        """An empty message: int8, (rows, bytes of a row)."""
        shape = self.rows if rows is None else rows, self.length + SCALE_BYTES * self.blocks
        return torch.empty(shape, dtype=torch.int8, device=self.device)

    def codes(self, message: torch.Tensor) -> torch.Tensor:
        """The codes in `message`, a view: int8, (rows, blocks, numbers)."""
        return message[:, : self.length].view(message.shape[0], self.blocks, self.size)

    def scales(self, message: torch.Tensor) -> torch.Tensor:
        """The scales in `message`, a view: float32, (rows, blocks)."""
        return message[:, self.length :].view(torch.float32)

    def finite(self, message: torch.Tensor) -> torch.Tensor:
        """Whether all numbers of `message` are finite, a bool tensor of one element."""
        return self.scales(message).isfinite().all()

    def encode(self, values: torch.Tensor, message: torch.Tensor, added: torch.Tensor | None = None) -> None:
        """Writes `values`, plus `added`, into `message` and leaves in `values` their error: what a reader does not get.

        The scale of a block with NaN is NaN, with infinity infinity; a reader gets NaN, and `values` have no error.
        """
        if added is not None:
            values.add_(added)
        codes, scales = self.codes(message), self.scales(message)
        for row, numbers in enumerate(self._rows()):
            part = values[numbers]
            missing = self.length - part.numel()
            padded = torch.cat([part, part.new_zeros(missing)]) if missing else part
            _encode(padded.view(self.blocks, self.size), codes[row], scales[row])
            if missing:
                part.copy_(padded[: part.numel()])

    def average(
        self, message: torch.Tensor, total: torch.Tensor, averages: torch.Tensor, added: torch.Tensor | None = None
    ) -> None:
        """Encodes the average of the rows of `message`, plus `added`, into `averages`, a message of one row.

        Its error is left in `total`, as long as a row.
        """
        codes, scales = self.codes(message), self.scales(message) * (1 / self.rows)
        part = total.view(self.blocks, self.size)
        torch.mul(codes[0], scales[0].unsqueeze(1), out=part)
        for row in range(1, self.rows):
            part.add_(codes[row] * scales[row].unsqueeze(1))
        if added is not None:
            total.add_(added)
        _encode(part, self.codes(averages)[0], self.scales(averages)[0])

    def decode(self, message: torch.Tensor, values: torch.Tensor, kept: torch.Tensor | None = None) -> None:
        """Writes the numbers of `message` to `values`; if they are finite, `kept` gets what was in there."""
        if kept is not None:
            keep_if(self.finite(message), kept, values)
        codes, scales = self.codes(message), self.scales(message)
        for row, numbers in enumerate(self._rows()):
            part = values[numbers]
            part.copy_((codes[row] * scales[row].unsqueeze(1)).view(-1)[: part.numel()])

    def _rows(self) -> list[slice]:
        """The numbers of each row; rows that are padding only have none."""
        ends = [min(row * self.length, self.count) for row in range(self.rows + 1)]
        return [slice(begin, end) for begin, end in pairwise(ends)]


class CpuBlocks(Blocks):
    """The same on the CPU, in one pass over memory where operations of torch take six."""

    def encode(self, values: torch.Tensor, message: torch.Tensor, added: torch.Tensor | None = None) -> None:
        """As `Blocks.encode`."""
        _C.encode_int8_blocks(values, added, message, self.size)

    def average(
        self, message: torch.Tensor, total: torch.Tensor, averages: torch.Tensor, added: torch.Tensor | None = None
    ) -> None:
        """As `Blocks.average`."""
        _C.average_int8_blocks(message, 1 / self.rows, total, added, averages, self.size)

    def decode(self, message: torch.Tensor, values: torch.Tensor, kept: torch.Tensor | None = None) -> None:
        """As `Blocks.decode`."""
        keeps = kept is not None and bool(self.finite(message))
        _C.decode_int8_blocks(message, values, kept if keeps else None, self.size)


def _encode(values: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> None:
    # Two reductions without a temporary are faster than abs().amax().
    largest = torch.maximum(values.amax(1), values.amin(1).neg_()).clamp_(min=LEAST_MAGNITUDE)
    steps = largest.div_(LARGEST_CODE).unsqueeze(1)
    scales.copy_(steps.squeeze(1))
    rounded = values.mul(steps.reciprocal()).round_()
    codes.copy_(rounded.where(steps.isfinite(), 0))
    values.sub_(rounded.mul_(steps))  # what a reader gets, bit for bit, not a fused operation's better product
