"""One clear warning for each thing that goes wrong."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable

_LIBRARIES = ("ucxring", "torch")


class DDPWarning(UserWarning):
    """Something about a distributed training that a person should look at; the message says what to do.

    Python's own means silence it (``warnings.simplefilter("ignore", DDPWarning)``) or make it an error.
    """


def warn(message: str) -> None:
    """Warns at the line of the program that called the library."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _LIBRARIES:
        frame = frame.f_back
        level += 1
    warnings.warn(message, DDPWarning, stacklevel=level + 1)


class Warner:
    """Gives each kind of warning once, and remembers it."""

    def __init__(self, send: Callable[[str], None] = warn) -> None:
        self._send = send
        self._messages: dict[str, str] = {}

    def has_given(self, kind: str) -> bool:
        """Whether there was one of this kind."""
        return kind in self._messages

    def give(self, kind: str, message: str) -> None:
        """Warns, unless there was one of this kind."""
        if kind not in self._messages:
            self._messages[kind] = message
            self._send(message)

    def given(self, kinds: Iterable[str]) -> list[str]:
        """The messages of these kinds, as far as there are."""
        return [self._messages[kind] for kind in kinds if kind in self._messages]
