"""Gradients as products of thin matrices, with error feedback."""

# No postponed annotations here: DistributedDataParallel compares those of a hook with the types themselves.
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ucxring.ddp.hooks.groups import flat_floats, or_world, start_average
from ucxring.ddp.hooks.per_bucket import PerBucket, keep_if
from ucxring.ddp.hooks.two_phases import Start, TwoPhases


class PowerSGDState:
    """What `power_sgd_compress` keeps: its groups, the error of each bucket, and the factors of the last step.

    Make it on all ranks of the group at the same point: it makes groups of its own (see `TwoPhases`).

    Args:
        group: None for the default group.
        rank: columns of the thin matrices, at least 1. More of them: a smaller error, more bytes, more work.
        start_iteration: steps that are averaged without compression first, while gradients change fast.
        min_compression: a matrix is sent as it is unless its thin matrices have so many times fewer numbers.
        warm_start: begins each step's power iteration with the result of the last one, which lets the factors converge
            over the steps; else with random numbers, equal on all ranks.
        error_feedback: adds what the thin matrices could not say to the next step's gradients. Costs as much memory as
            the gradients, at least 4 bytes per parameter.
        seed: of the random numbers; the same on all ranks.

    Raises:
        ValueError: for a rank below 1.

    """

    def __init__(
        self,
        group: dist.ProcessGroup | None = None,
        rank: int = 4,
        start_iteration: int = 10,
        min_compression: float = 2.0,
        warm_start: bool = True,
        error_feedback: bool = True,
        seed: int = 0,
    ) -> None:
        if rank < 1:
            raise ValueError(f"rank must be at least 1, not {rank}")
        self.group = or_world(group)
        self.rank, self.start_iteration, self.min_compression = rank, start_iteration, min_compression
        self.warm_start, self.error_feedback, self.seed = warm_start, error_feedback, seed
        self.iteration = 0
        """Steps so far."""
        self.phases = TwoPhases(self.group)
        self.errors: PerBucket[torch.Tensor] = PerBucket()
        self.plans: PerBucket[_Plan] = PerBucket()


def power_sgd_compress(state: PowerSGDState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages each matrix M (rows × columns) of the bucket as the product of two thin ones, P Qᵀ.

    One step of a power iteration for all ranks together: P = average of M Q, made orthogonal; Q = average of Mᵀ P; the
    result is P Qᵀ. A gradient of more dimensions is a matrix with the first one as rows. Vectors, and matrices that are
    too small to gain, travel uncompressed beside P. Two all-reduces per bucket, of rank · (rows + columns) numbers per
    matrix and the vectors. What P Qᵀ with this rank's own Q misses is added to its gradients of the next step.

    All ranks compute P's orthogonal basis and P Qᵀ from the same bits: replicas are bit-identical where the ranks'
    linear algebra rounds alike, which takes the same kind of processor and the same number of threads.

    What is not finite on one rank makes P and so the whole matrix NaN on all ranks, for `GradScaler` to see; errors and
    factors then stay as they were before the step.

    float16 and bfloat16 gradients are compressed in float32. Complex ones are averaged uncompressed.

    Vogels et al., PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization, NeurIPS 2019
    (algorithms 1 and 2), here with Householder's QR instead of Gram-Schmidt: it is orthogonal to rounding for any P,
    also for a zero one.
    """
    if not isinstance(state, PowerSGDState):
        raise TypeError("power_sgd_compress needs its state: register_comm_hook(PowerSGDState(), power_sgd_compress)")
    compressing = state.iteration >= state.start_iteration
    state.iteration += bucket.is_last()
    floats, buffer = flat_floats(bucket.buffer()), bucket.buffer()
    plan = None
    # torch flattens complex gradients to real buckets, in which it does not say where they are.
    if compressing and not any(parameter.is_complex() for parameter in bucket.parameters()):
        plan = state.plans.get(bucket, lambda: _Plan(state, bucket))
    if plan is None or not plan.matrices:
        return _average(floats, buffer, state.group)
    step = _Step(state, bucket, plan)
    return state.phases.run(step.send, step.orthogonalise, step.finish, buffer.device)


@dataclass(frozen=True)
class _Matrix:
    """A gradient that is compressed: `start` is its first number in the bucket."""

    start: int
    rows: int
    columns: int
    rank: int

    def of(self, flat: torch.Tensor) -> torch.Tensor:
        """The matrix in a flat bucket, a view."""
        return flat[self.start : self.start + self.rows * self.columns].view(self.rows, self.columns)


class _Plan:
    """What of a bucket is compressed and how, and the factors Q to begin the next step with."""

    def __init__(self, state: PowerSGDState, bucket: dist.GradBucket) -> None:
        self.matrices: list[_Matrix] = []
        self.vectors: list[slice] = []
        buffer = bucket.buffer()
        for gradient in bucket.gradients():
            self._add(state, gradient, gradient.storage_offset() - buffer.storage_offset())
        self.first_length = sum(each.rows * each.rank for each in self.matrices)
        self.second_length = sum(each.columns * each.rank for each in self.matrices)
        self.vectors_length = sum(each.stop - each.start for each in self.vectors)
        generator = torch.Generator().manual_seed(state.seed + bucket.index())
        self.generator = generator  # on the CPU for all devices: the numbers must be the same on all ranks
        self.right = self.random(buffer)

    def _add(self, state: PowerSGDState, gradient: torch.Tensor, start: int) -> None:
        rows = gradient.shape[0] if gradient.dim() > 1 else 1
        columns = gradient.numel() // max(rows, 1)
        rank = min(rows, columns, state.rank)
        if gradient.dim() > 1 and 0 < (rows + columns) * rank * state.min_compression <= rows * columns:
            self.matrices.append(_Matrix(start, rows, columns, rank))
        else:
            self.vectors.append(slice(start, start + gradient.numel()))

    def random(self, buffer: torch.Tensor) -> torch.Tensor:
        """New factors Q, flat, with the type that `buffer` is compressed in."""
        return torch.randn(self.second_length, generator=self.generator).to(buffer.device, _working_type(buffer))

    def lefts(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The views (rows, rank) of all P in the flat tensor of them."""
        return _thin(flat, ((each.rows, each.rank) for each in self.matrices))

    def rights(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The views (columns, rank) of all Q in the flat tensor of them."""
        return _thin(flat, ((each.columns, each.rank) for each in self.matrices))


class _Step:
    """One bucket in one step. Until the averages are there, the bucket's memory holds what was wanted."""

    def __init__(self, state: PowerSGDState, bucket: dist.GradBucket, plan: _Plan) -> None:
        self.state, self.plan, self.buffer = state, plan, bucket.buffer()
        self.wanted = self.buffer.to(_working_type(self.buffer))  # the same memory for float32 and float64
        if state.error_feedback:
            self.error = state.errors.get(bucket, lambda: torch.zeros_like(self.wanted))
            self.wanted.add_(self.error)
        self.first = self.wanted.new_empty(plan.first_length + plan.vectors_length)
        self.second = self.wanted.new_empty(plan.second_length)
        self._multiply()

    def _multiply(self) -> None:
        """All P = M Q, followed by the vectors."""
        if not self.state.warm_start:
            self.plan.right = self.plan.random(self.buffer)
        plan = self.plan
        for matrix, left, right in zip(plan.matrices, plan.lefts(self.first), plan.rights(plan.right), strict=True):
            torch.mm(matrix.of(self.wanted), right, out=left)
        if plan.vectors:
            torch.cat([self.wanted[span] for span in plan.vectors], out=self.first[plan.first_length :])

    def send(self) -> torch.futures.Future[Any]:
        """Starts the average of what `_multiply` made."""
        return start_average(self.first, self.state.phases.first_group)

    def orthogonalise(self) -> Start:
        """Makes the averaged P orthogonal, then Q = Mᵀ P; returns what starts their average."""
        plan = self.plan
        self.finite = self.first.isfinite().all()
        for matrix, left, right in zip(plan.matrices, plan.lefts(self.first), plan.rights(self.second), strict=True):
            left.copy_(torch.linalg.qr(left).Q)
            torch.mm(matrix.of(self.wanted).t(), left, out=right)
        self.own_second = self.second.clone() if self.state.error_feedback else self.second
        return lambda: start_average(self.second, self.state.phases.second_group)

    def finish(self) -> torch.Tensor:
        """Keeps the error and the factors, and writes P Qᵀ and the vectors into the bucket."""
        plan = self.plan
        self.finite &= self.second.isfinite().all()
        keep_if(self.finite, plan.right, self.second)
        lefts, rights, own_rights = plan.lefts(self.first), plan.rights(self.second), plan.rights(self.own_second)
        for matrix, left, right, own_right in zip(plan.matrices, lefts, rights, own_rights, strict=True):
            wanted = matrix.of(self.wanted)
            if self.state.error_feedback:
                keep_if(self.finite, matrix.of(self.error), wanted.addmm_(left, own_right.t(), alpha=-1))
            torch.mm(left, right.t(), out=wanted)
        lengths = [span.stop - span.start for span in plan.vectors]
        for span, vector in zip(plan.vectors, self.first[plan.first_length :].split(lengths), strict=True):
            self.wanted[span] = vector  # their error stays zero
        if self.wanted.dtype != self.buffer.dtype:
            self.buffer.copy_(self.wanted)
        return self.buffer


def _average(
    floats: torch.Tensor, buffer: torch.Tensor, group: dist.ProcessGroup
) -> torch.futures.Future[torch.Tensor]:
    def give_back(done: torch.futures.Future[Any]) -> torch.Tensor:
        done.value()  # raises what went wrong
        return buffer

    return start_average(floats, group).then(give_back)


def _thin(flat: torch.Tensor, shapes: Iterator[tuple[int, int]]) -> list[torch.Tensor]:
    views, start = [], 0
    for rows, columns in shapes:
        views.append(flat[start : start + rows * columns].view(rows, columns))
        start += rows * columns
    return views


def _working_type(buffer: torch.Tensor) -> torch.dtype:
    return torch.float32 if buffer.dtype in (torch.float16, torch.bfloat16) else buffer.dtype
