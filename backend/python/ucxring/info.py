"""What this installation is made of, for a bug report."""

from __future__ import annotations

import os
import platform
import socket
import sys

from rich.table import Table

from ucxring import _build_info
from ucxring import console as console_output


def show_info() -> int:
    """Prints versions, devices and settings that differ from their defaults."""
    import torch

    table = Table(show_header=False, title="ucxring")
    rows = {
        "ucxring": _build_info.VERSION,
        "built for torch": _build_info.TORCH_VERSION,
        "torch found": str(torch.__version__),
        "CUDA of the build": _build_info.TORCH_CUDA or "none",
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}",
        "network devices": ", ".join(name for _, name in socket.if_nameindex()),
        "set variables": "\n".join(_variables()) or "none",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console_output.make().print(table)
    return 0


def _variables() -> list[str]:
    return [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(("UCXRING_", "UCX_"))]


def show_settings() -> int:
    """Prints the table of all settings and what is wrong with them; 1 when something is."""
    from ucxring import Options, settings

    table = Table(title="settings of ucxring")
    for heading in ("variable", "value", "default", "allowed", "meaning"):
        table.add_column(heading, overflow="fold")
    for setting in settings():
        value = os.environ.get(setting.variable, setting.default)
        table.add_row(setting.variable, value, setting.default, setting.allowed, setting.help)
    console_output.make().print(table)
    try:
        Options()
    except ValueError as error:
        print(f"ucxring settings: {error}", file=sys.stderr)
        return 1
    return 0
