"""What the wrapper cannot train or run, found before the first collective."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh


def check_parameters(named: Iterable[tuple[str, nn.Parameter]]) -> None:
    """Raises ValueError for a parameter that has no shape yet, or is stepped before its gradient is the mean."""
    for name, parameter in named:
        if nn.parameter.is_lazy(parameter):
            raise ValueError(f"{name} has no shape yet: call the lazy module once, on all ranks, before wrapping it")
        if hasattr(parameter, "_in_backward_optimizers"):
            raise ValueError(
                f"an optimizer steps {name} within backward (_apply_optimizer_in_backward), before its gradient is the "
                "mean: replicas would drift apart. Step an ordinary optimizer after backward"
            )


def check_buffers(named: Iterable[tuple[str, Tensor]]) -> None:
    """Raises ValueError for a buffer that cannot be broadcast."""
    for name, buffer in named:
        if buffer.layout != torch.strided:
            raise ValueError(
                f"buffer {name} is sparse and cannot be broadcast: make it dense, name it in the module's "
                "_ddp_params_and_buffers_to_ignore, or pass broadcast_buffers=False and init_sync=False"
            )


def localise_tensor_parallel(module: nn.Module, mesh: DeviceMesh | None) -> None:
    """On one dimension of a larger mesh DTensor parameters become local ones, but during forward, as torch does it."""
    if mesh is None or mesh._get_root_mesh() == mesh:
        return
    from torch.distributed.tensor.parallel.ddp import _pre_dp_module_transform

    _pre_dp_module_transform(module)


def expecting_future(hook: Callable[..., Any]) -> Callable[..., Any]:
    """The comm hook, with TypeError for what is no future: torch's core would end the process."""

    @functools.wraps(hook)
    def checked(state: object, bucket: Any) -> Any:
        future = hook(state, bucket)
        if not isinstance(future, torch._C.Future):
            raise TypeError(f"a comm hook returns a torch.futures.Future of the mean, not {type(future).__name__}")
        return future

    return checked
