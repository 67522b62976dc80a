"""Entry points through which torch finds the backend."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ucxring import _core

if TYPE_CHECKING:
    from ucxring._C import Options, ProcessGroupUcxring

BACKEND = "ucxring"
DEVICES = ["cpu", "cuda"]


def torch_is_importing() -> bool:
    """Whether `import torch` is under way and has come to loading its extensions."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(getattr(torch.__spec__, "_initializing", False))


def autoload() -> None:
    """Entry point in `torch.backends`: called at the end of `import torch` in every process. Never raises."""
    try:
        register()
    except Exception:
        # Whoever imports ucxring itself shall see the error.
        sys.modules.pop("ucxring", None)


def register() -> None:
    """Entry point in `torch.distributed.backends`: makes the backend known to torch.distributed. Idempotent."""
    _core.check_torch()
    import torch.distributed as dist

    if dist.is_available() and BACKEND.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(BACKEND, create_backend, extended_api=True, devices=DEVICES)


def create_backend(group: Any, options: Options | None) -> ProcessGroupUcxring:
    """Makes one rank's side of a group; torch calls it on all of its ranks.

    `group` is torch's description of it (store, rank, size, timeout, name), `options` what the user gave as
    `pg_options`.
    """
    core = _core.load()
    if options is not None and not isinstance(options, core.Options):
        raise TypeError(f"pg_options of the backend ucxring must be ucxring.Options, not {type(options).__name__}")
    chosen = core.Options() if options is None else options.copy()
    if not chosen.has_timeout:
        chosen.timeout = _as_timedelta(group.timeout)
    chosen.global_ranks_in_group = list(group.global_ranks_in_group)
    chosen.group_name = group.group_id if chosen.global_ranks_in_group else "world"
    made: ProcessGroupUcxring = core.ProcessGroupUcxring(group.store, group.group_rank, group.group_size, chosen)
    return made


def _as_timedelta(timeout: timedelta | float) -> timedelta:
    return timeout if isinstance(timeout, timedelta) else timedelta(seconds=float(timeout))
