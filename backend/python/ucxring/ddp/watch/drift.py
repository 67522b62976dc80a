"""Which part of the parameters is hashed in which step, the same on all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ucxring.ddp.watch import hashes

SMALLEST_WINDOW = 64 << 10  # bytes


@dataclass
class Window:
    """Parts of parameters that are hashed in one step."""

    parts: list[tuple[Tensor, int, int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


def windows(parameters: Iterable[tuple[str, Tensor]], most: int) -> list[Window]:
    """Shares all bytes out to at most `most` windows of equal size, of `SMALLEST_WINDOW` at least."""
    plain = [(name, tensor) for name, tensor in parameters if _has_bytes(tensor)]
    total = sum(_whole_words(tensor.nbytes) for _, tensor in plain)
    size = max(SMALLEST_WINDOW, _whole_words(-(-total // most)))
    result: list[Window] = []
    room = 0
    for name, tensor in plain:
        first = 0
        while first < tensor.nbytes:
            if room == 0:
                result.append(Window())
                room = size
            last = min(tensor.nbytes, first + room)
            result[-1].parts.append((tensor, first, last))
            result[-1].names.append(name)
            room -= _whole_words(last - first)
            first = last
    return result


def _whole_words(count: int) -> int:
    """Bytes rounded up to words of 8."""
    return (count + 7) // 8 * 8


def _has_bytes(tensor: Tensor) -> bool:
    """Whether it is a plain tensor: one without a shape yet, or spread over ranks, cannot be compared."""
    plain = type(tensor) in (Tensor, nn.Parameter) and tensor.layout == torch.strided
    return plain and not tensor.is_meta and not tensor.is_quantized and tensor.numel() > 0


class ParameterHashes:
    """Hashes of the parameters in turn: each byte is read once in every `steps` steps.

    A step hashes one window, a hundredth of the parameters with the default: about 0.2 ms per step for 100 MB on a CPU.
    Small models have fewer windows, and steps without one between them. A value is sent with the step after the one
    in which it was computed, so that a GPU is not waited for.

    A parameter that differs on one rank, in a single bit even, is thus found `steps` + 1 steps later at the latest.
    """

    def __init__(self, parameters: Iterable[tuple[str, Tensor]], steps: int) -> None:
        self._windows = windows(parameters, steps)
        self._period = max(1, steps // max(1, len(self._windows)))
        self._step = -1
        self._pending: tuple[_Checksum, Window] | None = None
        self._value = 0
        self._sent: Window | None = None

    def value(self, step: int) -> int:
        """The hash to send with `step`, 0 for none. Several calls in a step give the same."""
        if step == self._step or not self._windows:
            return self._value
        self._step = step
        self._value, self._sent = 0, None
        if self._pending is not None:
            self._value, self._sent = self._pending[0].value(), self._pending[1]
            self._pending = None
        if step % self._period == self._period // 2:
            window = self._windows[step // self._period % len(self._windows)]
            self._pending = _Checksum(window), window
        return self._value

    def names(self, step: int) -> list[str]:
        """The parameters that the value of the latest step covers; none when `step` is another one."""
        return list(self._sent.names) if self._sent is not None and step == self._step else []


class _Checksum:
    """A checksum that may still be computed on a GPU."""

    def __init__(self, window: Window) -> None:
        total = hashes.checksum(window.parts)
        self._event: torch.cuda.Event | None = None
        if total.is_cuda:
            pinned = torch.empty((), dtype=torch.int64, pin_memory=True)
            total = pinned.copy_(total, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()
        self._total = total

    def value(self) -> int:
        if self._event is not None:
            self._event.synchronize()
        return hashes.folded(int(self._total))
