"""Shows how a training comes along: a bar on a terminal, a line per epoch elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar


class Progress:
    """Counts epochs. Shows nothing when `shown` is false (on every rank but one)."""

    def __init__(self, epochs: int, label: str, shown: bool) -> None:
        self._epochs = epochs
        self._label = label
        self._shown = shown
        self._done = 0
        self._bar: Bar | None = None
        if shown and sys.stdout.isatty():
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("loss {task.fields[loss]}"),
                TimeElapsedColumn(),
                console=Console(),
            )
            self._task = self._bar.add_task(f"epoch, {label}", total=epochs, loss="–")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def epoch(self, loss: float) -> None:
        """One more epoch is done, with this mean loss."""
        self._done += 1
        if self._bar:
            self._bar.update(self._task, advance=1, loss=f"{loss:.4f}")
        elif self._shown:
            print(f"{self._label}: epoch {self._done}/{self._epochs} loss {loss:.4f}", flush=True)
