"""Shows how a training comes along: a bar on a terminal, some lines elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

LINES = 20  # at most so many where there is no terminal


class Progress:
    """Counts epochs, or what `unit` says. Shows nothing when `shown` is false (on every rank but one)."""

    def __init__(self, total: int, label: str, shown: bool, unit: str = "epoch") -> None:
        self._total = total
        self._label = label
        self._shown = shown
        self._unit = unit
        self._done = 0
        self._bar: Bar | None = None
        if shown and sys.stdout.isatty():
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("loss {task.fields[loss]}{task.fields[figures]}"),
                TimeElapsedColumn(),
                console=Console(),
            )
            self._task = self._bar.add_task(f"{unit}, {label}", total=total, loss="–", figures="")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def advance(self, loss: float, figures: str = "") -> None:
        """One more is done, with this mean loss and other figures in words."""
        self._done += 1
        figures = f" · {figures}" if figures else ""
        if self._bar:
            self._bar.update(self._task, advance=1, loss=f"{loss:.4f}", figures=figures)
        elif self._shown and (self._done % -(-self._total // LINES) == 0 or self._done == self._total):
            print(f"{self._label}: {self._unit} {self._done}/{self._total} loss {loss:.4f}{figures}", flush=True)
