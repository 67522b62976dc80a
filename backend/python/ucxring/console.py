"""Where tables go."""

from __future__ import annotations

from rich.console import Console

PLAIN_WIDTH = 240


def make(plain_width: int = PLAIN_WIDTH) -> Console:
    """Standard output; wide enough for a table when it is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=plain_width)
