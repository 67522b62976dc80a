"""Data-parallel training: one module on many ranks, its gradients averaged while backward still computes others."""

from __future__ import annotations

from ucxring.ddp.wrapper import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
