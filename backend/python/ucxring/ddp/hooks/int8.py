"""Gradients in 8 bits on the wire, with error feedback."""

# No postponed annotations here: DistributedDataParallel compares those of a hook with the types themselves.
from typing import Any

import torch
import torch.distributed as dist

from ucxring.ddp.hooks.groups import flat_floats, or_world
from ucxring.ddp.hooks.ordered import OrderedSecond, Start
from ucxring.ddp.hooks.per_bucket import Residuals

LARGEST_CODE = 127
LEAST_MAGNITUDE = 1e-35  # of a block that is not sent as zeros: the reciprocal of its scale must be finite in float32
SCALE_BYTES = 4


class Int8State:
    """What `int8_compress` keeps: its groups, and the errors of quantisation of this rank's gradients and of its part.

    Make it on all ranks of the group at the same point: it makes a second group (see `OrderedSecond`).

    Args:
        group: None for the default group.
        block_size: numbers that share one scale, a multiple of 4. Smaller blocks: a smaller error, more bytes; the
            scales add 4 / block_size bytes per number.
        error_feedback: adds what was rounded away to the next step's gradients. Costs 4 bytes of memory per parameter,
            and 4 more for the parameters of this rank's part.

    Raises:
        ValueError: for a block size that is not a positive multiple of 4.

    """

    def __init__(
        self, group: dist.ProcessGroup | None = None, block_size: int = 512, error_feedback: bool = True
    ) -> None:
        if block_size <= 0 or block_size % SCALE_BYTES != 0:
            raise ValueError(f"block_size must be a positive multiple of {SCALE_BYTES}, not {block_size}")
        self.group = or_world(group)
        self.block_size = block_size
        self.error_feedback = error_feedback
        self.second = OrderedSecond(self.group)
        self.errors = Residuals()
        self.part_errors = Residuals()


def int8_compress(state: Int8State, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages the bucket with 8-bit integers on the wire, about a quarter of the bytes of float32.

    The bucket is cut into one part per rank. Each rank sends every part, quantised in blocks, to its owner
    (all-to-all); the owner averages what it got in float32, quantises once more, and sends the result to all
    (all-gather). Everyone, the owner included, decodes the same bytes, so replicas stay bit-identical. Both errors are
    fed back in the next step. Bytes that a rank of n sends: 2 (n − 1) / n · (1 + 4 / block_size) per number.

    A block with a number that is not finite gets a scale that is not, so all its numbers arrive as NaN or infinity on
    all ranks, for `GradScaler` to see, and the errors that are kept stay as they were before the step.

    float64 loses its precision on the way, float16 and bfloat16 do not: sums and errors are float32.

    Blocks with one scale: Dettmers, 8-Bit Approximations for Parallelism in Deep Learning, ICLR 2016. Error feedback on
    both sides: Tang et al., DoubleSqueeze, ICML 2019, and 1-bit Adam, ICML 2021.
    """
    if not isinstance(state, Int8State):
        raise TypeError("int8_compress needs its state: register_comm_hook(Int8State(), int8_compress)")
    exchange = _Exchange(state, bucket)
    return state.second.follow(exchange.send(), exchange.reduce, exchange.finish, exchange.buffer.device)


class _Exchange:
    """One bucket in one step. Rows are parts: (ranks, numbers of a part, padded with zeros to whole blocks)."""

    def __init__(self, state: Int8State, bucket: dist.GradBucket) -> None:
        self.state, self.index, self.buffer = state, bucket.index(), bucket.buffer()
        self.floats = flat_floats(self.buffer)
        ranks, block = state.group.size(), state.block_size
        blocks = -(-self.floats.numel() // (ranks * block))  # of a part; rounded up
        self.wanted = self._rows(ranks, blocks * block)
        if state.error_feedback:
            error = state.errors.get(bucket, lambda: torch.zeros_like(self.wanted))
            self.part_error = state.part_errors.get(bucket, lambda: torch.zeros_like(self.wanted[:1]))
            self.wanted.add_(error)
        self.message = encode(self.wanted, block)
        self.received = torch.empty_like(self.message)

    def _rows(self, ranks: int, length: int) -> torch.Tensor:
        count = self.floats.numel()
        flat = torch.empty(ranks * length, dtype=torch.float32, device=self.floats.device)
        flat[:count] = self.floats
        flat[count:].zero_()
        return flat.view(ranks, length)

    def send(self) -> torch.futures.Future[Any]:
        """Starts the all-to-all."""
        work = dist.all_to_all_single(self.received, self.message, group=self.state.group, async_op=True)
        return work.get_future()

    def reduce(self) -> Start:
        """Averages this rank's part and quantises it; returns what starts the all-gather."""
        shares = decode(self.received, self.state.block_size, 1 / self.received.shape[0])
        self.wanted_part = shares.sum(0, keepdim=True)
        if self.state.error_feedback:
            self.wanted_part.add_(self.part_error)
        self.part_message = encode(self.wanted_part, self.state.block_size)
        return self.gather

    def gather(self) -> torch.futures.Future[Any]:
        """Starts the all-gather, into the memory of the messages that have been read."""
        rows = [self.received[rank] for rank in self.state.second.ranks]
        work = dist.all_gather(rows, self.part_message[0], group=self.state.second.group, async_op=True)
        return work.get_future()

    def finish(self) -> torch.Tensor:
        """Keeps the errors and writes the averages into the bucket."""
        block = self.state.block_size
        if self.state.error_feedback:
            finite = scales(self.received, block).isfinite().all()
            for errors, wanted, message in (
                (self.state.errors, self.wanted, self.message),
                (self.state.part_errors, self.wanted_part, self.part_message),
            ):
                errors.update(self.index, wanted.sub_(decode(message, block)), finite)
        averages = decode(self.received, block).view(-1)
        self.floats.copy_(averages[: self.floats.numel()])
        return self.buffer


def encode(values: torch.Tensor, block: int) -> torch.Tensor:
    """The float32 rows `values` as int8 codes, followed in each row by the bytes of the float32 scales of its blocks.

    A number is its code times the scale of its block: the largest magnitude in it over 127, rounded to nearest even.
    A row's length must be a multiple of `block`. The scale of a block with NaN is NaN, with infinity infinity.
    """
    rows, length = values.shape
    blocks = values.view(rows, -1, block)
    message = torch.empty(rows, _row_bytes(length, block), dtype=torch.int8, device=values.device)
    # Two reductions without a temporary are faster than abs().amax().
    largest = torch.maximum(blocks.amax(2), blocks.amin(2).neg_()).clamp_(min=LEAST_MAGNITUDE)
    steps = largest.div_(LARGEST_CODE)
    scales(message, block).copy_(steps)
    _codes(message, block).copy_(blocks.mul(steps.reciprocal_().unsqueeze(2)).round_())
    return message


def decode(message: torch.Tensor, block: int, factor: float = 1.0) -> torch.Tensor:
    """The float32 rows of a message, times `factor`."""
    values = _codes(message, block).to(torch.float32)
    values.mul_((scales(message, block) * factor).unsqueeze(2))
    return values.view(message.shape[0], -1)


def scales(message: torch.Tensor, block: int) -> torch.Tensor:
    """The scales in a message, a view: (rows, blocks)."""
    return message[:, _length(message, block) :].view(torch.float32)


def _codes(message: torch.Tensor, block: int) -> torch.Tensor:
    return message[:, : _length(message, block)].view(message.shape[0], -1, block)


def _row_bytes(length: int, block: int) -> int:
    return length // block * (block + SCALE_BYTES)


def _length(message: torch.Tensor, block: int) -> int:
    row_bytes: int = message.shape[1]
    return row_bytes // (block + SCALE_BYTES) * block
