"""Where the watch draws its lines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """From what on something is worth a warning. Steps are synchronised steps."""

    batch_steps: int = 8  # first steps whose batches are compared; 0: none
    equal_batches: int = 2  # so many of them have to be equal
    parameter_steps: int = 100  # steps in which all parameters are compared once; 0: never
    warm_up: int = 2  # first steps that figures leave out: buckets are rebuilt, memory is allocated
    window: int = 10  # steps that are looked at together
    straggler: float = 1.25  # a rank's own work over the median of the others'
    least_lag: float = 1e-3  # seconds per step below which a straggler is noise
    exposed: float = 0.30  # share of a step
    enough_micro_batches: int = 8  # so many are not asked to become more
    forwards: int = 3  # in a row with no backward between
    history: int = 512  # steps kept for the report, the trace and the picture
