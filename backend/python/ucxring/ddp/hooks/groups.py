"""What every hook needs: its group, averages over it, the numbers of a bucket as one flat tensor."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

AVERAGING_BACKENDS = frozenset({"ucxring", "nccl"})


def or_world(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    """`group`, or the default group for None."""
    return dist.group.WORLD if group is None else group


def start_average(tensor: torch.Tensor, group: dist.ProcessGroup) -> torch.futures.Future[Any]:
    """Starts to replace `tensor` by its average over the ranks of `group`; the future is ready when it is there.

    A backend that averages by itself does so without a pass over the tensor and, as ucxring sums narrow types in
    float, without an overflow on the way. For others the tensor is divided by the number of ranks first.
    """
    operation = dist.ReduceOp.AVG
    if _backend(group, tensor.device).name() not in AVERAGING_BACKENDS:
        tensor.div_(group.size())
        operation = dist.ReduceOp.SUM
    return dist.all_reduce(tensor, operation, group=group, async_op=True).get_future()


def private_group(group: dist.ProcessGroup) -> dist.ProcessGroup:
    """A new group of the same ranks, backend and timeout. Collective: every rank of `group` calls it."""
    return dist.new_group(
        dist.get_process_group_ranks(group),
        timeout=_timeout(group),
        backend=dist.get_backend_config(group),
        use_local_synchronization=True,
    )


def flat_floats(buffer: torch.Tensor) -> torch.Tensor:
    """The numbers of a bucket as a flat real tensor over the same memory; a complex number counts as two.

    Raises:
        TypeError: for a sparse gradient.

    """
    if buffer.layout != torch.strided:
        raise TypeError(
            "a sparse gradient cannot be compressed by this hook: use no hook, or an embedding with sparse=False"
        )
    return torch.view_as_real(buffer).view(-1) if buffer.is_complex() else buffer.view(-1)


def _backend(group: dist.ProcessGroup, device: torch.device) -> Any:
    return group._get_backend(device)


def _timeout(group: dist.ProcessGroup) -> timedelta | None:
    """The timeout of `group` where its backend tells it, else None: torch's default."""
    options = getattr(_backend(group, torch.device("cpu")), "options", None)
    return getattr(options, "_timeout", None)
