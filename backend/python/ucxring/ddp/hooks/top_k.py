"""Only the largest gradients on the wire, with error feedback."""

# No postponed annotations here: DistributedDataParallel compares those of a hook with the types themselves.
import math
from typing import Any

import torch
import torch.distributed as dist

from ucxring.ddp.hooks.groups import flat_floats, or_world
from ucxring.ddp.hooks.per_bucket import PerBucket, keep_if

SAMPLE = 1 << 14
LEAST_SAMPLED = 16 * SAMPLE  # numbers from which a sample is worth its time
MARGIN = 1.25
CHUNK = 1 << 17


class TopKState:
    """What `top_k_compress` keeps: its group, and what of each bucket has not been sent yet.

    Args:
        group: None for the default group.
        density: the share of each bucket's numbers that a rank sends, above 0 and at most 1; at least one number.
        error_feedback: adds what was not sent to the next step's gradients. Without it most gradients are lost for
            good, and most trainings fail. Costs 4 bytes of memory per parameter.

    Raises:
        ValueError: for a density outside its range.

    """

    def __init__(
        self, group: dist.ProcessGroup | None = None, density: float = 0.01, error_feedback: bool = True
    ) -> None:
        if not 0 < density <= 1:
            raise ValueError(f"density must be above 0 and at most 1, not {density}")
        self.group = or_world(group)
        self.density = density
        self.error_feedback = error_feedback
        self.errors: PerBucket[torch.Tensor] = PerBucket()


def top_k_compress(state: TopKState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages the numbers of largest magnitude of each rank; all others count as 0 and wait for a later step.

    One all-gather of (index, value) pairs, 8 bytes each: a rank of n sends 8 (n − 1) · density bytes per number where
    a ring all-reduce of float32 sends 8 (n − 1) / n. The share, n · density, grows with the ranks: for small groups, or
    small densities. All ranks add the same pairs in the order of the ranks, so replicas stay bit-identical.

    NaN counts as largest, then infinity, so what is not finite is always sent and arrives on all ranks, for
    `GradScaler` to see; what is kept for later then stays as it was before the step.

    Values are float32 on the wire and in the sum, whatever the gradients are.

    Aji and Heafield, Sparse Communication for Distributed Gradient Descent, EMNLP 2017; Stich et al., Sparsified SGD
    with Memory, NeurIPS 2018. The sampled threshold: Lin et al., Deep Gradient Compression, ICLR 2018.
    """
    if not isinstance(state, TopKState):
        raise TypeError("top_k_compress needs its state: register_comm_hook(TopKState(), top_k_compress)")
    exchange = _Exchange(state, bucket)
    return exchange.send().then(exchange.finish)


class _Exchange:
    """One bucket in one step. A message is an int32 row: the indices, then the bits of the float32 values."""

    def __init__(self, state: TopKState, bucket: dist.GradBucket) -> None:
        self.state, self.buffer = state, bucket.buffer()
        self.floats = flat_floats(self.buffer)
        self.wanted = self.floats.to(torch.float32)  # the same memory for float32
        if state.error_feedback:
            self.error = state.errors.get(bucket, lambda: torch.zeros_like(self.wanted))
            self.wanted.add_(self.error)
        self.count = math.ceil(state.density * self.wanted.numel())
        self.chosen = largest(self.wanted, self.count)
        self.messages = self._messages()

    def _messages(self) -> torch.Tensor:
        """(ranks, 2 · count), this rank's row filled."""
        ranks = self.state.group.size()
        messages = torch.empty(ranks, 2 * self.count, dtype=torch.int32, device=self.floats.device)
        mine = messages[self.state.group.rank()]
        mine[: self.count] = self.chosen
        mine[self.count :].view(torch.float32).copy_(self.wanted[self.chosen])
        return messages

    def send(self) -> torch.futures.Future[Any]:
        """Starts the all-gather."""
        rows = list(self.messages)
        mine = rows[self.state.group.rank()]
        return dist.all_gather(rows, mine, group=self.state.group, async_op=True).get_future()

    def finish(self, done: torch.futures.Future[Any]) -> torch.Tensor:
        """Keeps what was not sent and writes the averages into the bucket."""
        done.value()  # raises what went wrong
        values = self.messages[:, self.count :].view(torch.float32)
        if self.state.error_feedback:
            self.wanted.index_fill_(0, self.chosen, 0)
            keep_if(values.isfinite().all(), self.error, self.wanted)
        mean, shares = self.wanted.zero_(), values / values.shape[0]
        for indices, share in zip(self.messages[:, : self.count], shares, strict=True):
            mean.index_add_(0, indices, share)
        if mean.dtype != self.floats.dtype:
            self.floats.copy_(mean)
        return self.buffer


def largest(values: torch.Tensor, count: int) -> torch.Tensor:
    """Indices (int64, in no order) of the `count` numbers of largest magnitude in a flat tensor, NaN before infinity.

    On the CPU a sample of 16384 gives a magnitude that a few more than `count` numbers exceed, and only those are
    sorted: ten times as fast as `torch.topk` of all 6.5 million numbers of a bucket of 25 MiB.
    """
    if not values.is_cpu or values.numel() < LEAST_SAMPLED or count > values.numel() // 8:
        return values.abs().topk(count, sorted=False).indices
    sample = values[:: values.numel() // SAMPLE].abs()
    wanted = MARGIN * count / values.numel() * sample.numel()
    threshold = sample.topk(math.ceil(wanted + 2 * math.sqrt(wanted)), sorted=False).values.min()
    candidates = _above(values, threshold)
    if candidates.numel() < count:
        return values.abs().topk(count, sorted=False).indices
    return candidates[values[candidates].abs().topk(count, sorted=False).indices]


def _above(values: torch.Tensor, threshold: torch.Tensor) -> torch.Tensor:
    """Indices of numbers whose magnitude exceeds `threshold`, or that are NaN; by chunks that stay in the cache."""
    found = [
        (chunk.abs() <= threshold).logical_not_().nonzero().view(-1).add_(position * CHUNK)
        for position, chunk in enumerate(values.split(CHUNK))
    ]
    return torch.cat(found)
