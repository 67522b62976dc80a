"""Loads the C++ side, after a look at whether it fits the torch that is installed."""

from __future__ import annotations

import atexit
import importlib
from types import ModuleType

from ucxring import _build_info

_exit_is_registered = False


def minor_version(version: str) -> tuple[str, ...]:
    """The part of a version of torch that decides about binary compatibility: ("2", "13") for 2.13.0+cpu."""
    return tuple(version.split("+")[0].split(".")[:2])


def check_torch() -> None:
    """Raises ImportError, in one line, unless the torch that is installed is one this build was made for."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        message = f"ucxring {_build_info.VERSION} needs torch {_build_info.TORCH_VERSION}, which is not installed"
        raise ImportError(message) from None
    built, found = _build_info.TORCH_VERSION, str(torch.__version__)
    if minor_version(built) != minor_version(found):
        raise ImportError(
            f"ucxring {_build_info.VERSION} was built for torch {built}, but torch {found} is installed: install a "
            f"ucxring built for it (pip install --no-build-isolation --force-reinstall ucxring)"
        )
    if _build_info.TORCH_CUDA and torch.version.cuda is None:
        raise ImportError(
            f"ucxring {_build_info.VERSION} was built for torch {built} with CUDA {_build_info.TORCH_CUDA}, but torch "
            f"{found} has no CUDA: install a ucxring built for it"
        )


def load(name: str = "_C") -> ModuleType:
    """The module `name` of this package, one that needs the C++ side."""
    global _exit_is_registered
    check_torch()
    core = importlib.import_module("ucxring._C")
    if not _exit_is_registered:
        _exit_is_registered = True
        atexit.register(core.shut_down_all_groups)
    return importlib.import_module(f"ucxring.{name}")
