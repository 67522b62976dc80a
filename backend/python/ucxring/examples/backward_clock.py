"""Times a backward pass from outside, alike for every wrapper."""

from __future__ import annotations

import time
from types import TracebackType

from torch import Tensor, nn


class BackwardClock:
    """Use as `with clock: loss.backward()`; then `whole` and `after_last_gradient` are its times in seconds.

    `after_last_gradient` counts from when this rank's last gradient was computed to the end. With communication, that
    is what backward did not hide: the rest of the reduction, and waiting for ranks that compute longer. The moment
    is noted by a hook on each parameter, which runs before any wrapper sees the gradient.
    """

    def __init__(self, module: nn.Module) -> None:
        self.whole = 0.0
        self.after_last_gradient = 0.0
        self._began = 0.0
        self._last = 0.0
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.register_hook(self._note)

    def _note(self, _gradient: Tensor) -> None:
        self._last = time.perf_counter()

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end = time.perf_counter()
        self.whole = end - self._began
        self.after_last_gradient = end - self._last
