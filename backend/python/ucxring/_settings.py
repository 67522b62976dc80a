"""The table of all settings."""

from __future__ import annotations

from typing import NamedTuple

from ucxring import _C


class Setting(NamedTuple):
    """One setting: an environment variable and an attribute of `ucxring.Options`."""

    name: str
    type: str
    default: str
    allowed: str
    help: str

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"UCXRING_{self.name.upper()}"


def settings() -> list[Setting]:
    """All settings in the order of the documentation. `name` is the attribute of `ucxring.Options`."""
    return [Setting(name.lower(), *rest) for name, *rest in _C.settings()]
