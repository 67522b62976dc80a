"""The C++ side of ucxring."""  # noqa: N999

from collections.abc import Sequence
from datetime import timedelta

import torch
from torch._C._distributed_c10d import Backend, ErrorType, Store

class Options(Backend.Options):
    """Settings of one group, for `pg_options`; attributes not given are as the environment variables say.

    Wrong names and values raise ValueError that says what is allowed.
    """

    algorithm: str
    slice_bytes: int | str
    lanes: int
    spin_us: int
    progress_thread: bool
    transport: str
    shm_dir: str
    net_devices: str
    ucx_tls: str
    port_range: str
    ddp_report: bool
    log_level: str
    timeout: timedelta
    group_name: str
    global_ranks_in_group: list[int]
    def __init__(self, *, timeout: timedelta | None = None, **settings: str | int | bool) -> None: ...
    @property
    def has_timeout(self) -> bool: ...
    def copy(self) -> Options: ...

class ProcessGroupUcxring(Backend):
    """One rank's membership in a group; torch.distributed makes and keeps it."""

    def __init__(self, store: Store, rank: int, size: int, options: Options) -> None: ...
    @property
    def options(self) -> Options: ...
    @property
    def transport(self) -> str: ...
    def get_error(self) -> ErrorType: ...
    def _set_default_timeout(self, timeout: timedelta) -> None: ...

def empty(size: Sequence[int], dtype: torch.dtype) -> torch.Tensor: ...
def settings() -> list[list[str]]: ...
def shut_down_all_groups() -> None: ...
