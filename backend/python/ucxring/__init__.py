"""Collective communication for PyTorch over UCX.

Importing this package registers the backend, so that ``torch.distributed.init_process_group("ucxring")`` works. An
installed package registers itself when torch is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ucxring import _autoload, _build_info

if TYPE_CHECKING:
    from ucxring._C import Options, ProcessGroupUcxring
    from ucxring._memory import empty
    from ucxring._settings import Setting, settings
    from ucxring.ddp import DistributedDataParallel

__version__ = _build_info.VERSION
__all__ = ["DistributedDataParallel", "Options", "ProcessGroupUcxring", "Setting", "__version__", "empty", "settings"]

# Where they live; loaded on first use, so that registering stays cheap for programs that use another backend.
_HOMES = {
    "DistributedDataParallel": "ddp",
    "Options": "_C",
    "ProcessGroupUcxring": "_C",
    "Setting": "_settings",
    "empty": "_memory",
    "settings": "_settings",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'ucxring' has no attribute {name!r}")
    from ucxring import _core

    return getattr(_core.load(_HOMES[name]), name)


# While torch imports itself it calls `_autoload.autoload`, which may not fail; everybody else gets the error here.
if not _autoload.torch_is_importing():
    _autoload.register()
