"""Training with inputs that end earlier on some ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import JoinHook

if TYPE_CHECKING:
    from ucxring.ddp.wrapper import DistributedDataParallel


@dataclass(frozen=True)
class Attendance:
    """Who takes part in a step with data, and whether the step averages."""

    active: list[int]
    synchronise: bool


def take_attendance(ddp: DistributedDataParallel, active: bool) -> Attendance:
    """Collective over all ranks, joined or not: each says whether it has data and whether it averages."""
    rank, world_size = dist.get_rank(ddp.process_group), dist.get_world_size(ddp.process_group)
    flags = torch.zeros(world_size + 1, device=ddp.device)
    flags[rank] = float(active)
    flags[world_size] = float(active and ddp.require_backward_grad_sync)
    dist.all_reduce(flags, group=ddp.process_group)
    values = flags.tolist()
    return Attendance([each for each in range(world_size) if values[each] > 0], values[world_size] > 0)


class DdpJoinHook(JoinHook):
    """What a rank without data does while others still have some: the same collectives, with zeros."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        super().__init__()
        self._ddp = ddp

    def main_hook(self) -> None:
        """One forward and backward of the others."""
        self._ddp.shadow_step()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Everybody gets the model of a rank that took part to the end."""
        ddp = self._ddp
        last = torch.tensor([dist.get_rank(ddp.process_group) if is_last_joiner else -1], device=ddp.device)
        dist.all_reduce(last, dist.ReduceOp.MAX, group=ddp.process_group)
        ddp.broadcast_model(int(last))
