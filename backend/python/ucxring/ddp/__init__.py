"""Data-parallel training: one module on many ranks, its gradients averaged while backward still computes others."""

from __future__ import annotations

from ucxring.ddp import hooks
from ucxring.ddp.micro_batch_planner import MicroBatchPlanner
from ucxring.ddp.micro_batches import MicroBatch, accumulate, split
from ucxring.ddp.sync_batch_norm import SyncBatchNorm, convert_sync_batchnorm
from ucxring.ddp.watch import DDPWarning
from ucxring.ddp.wrapper import DistributedDataParallel

__all__ = [
    "DDPWarning",
    "DistributedDataParallel",
    "MicroBatch",
    "MicroBatchPlanner",
    "SyncBatchNorm",
    "accumulate",
    "convert_sync_batchnorm",
    "hooks",
    "split",
]
