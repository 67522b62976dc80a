"""Gradients in 8 bits on the wire, with error feedback."""

# No postponed annotations here: DistributedDataParallel compares those of a hook with the types themselves.
from typing import Any

import torch
import torch.distributed as dist

from ucxring.ddp.hooks.blocks import SCALE_BYTES, make_blocks
from ucxring.ddp.hooks.groups import flat_floats, or_world
from ucxring.ddp.hooks.per_bucket import PerBucket, keep_if
from ucxring.ddp.hooks.two_phases import Start, TwoPhases


class Int8State:
    """What `int8_compress` keeps: groups, messages, and the errors of quantising gradients and this rank's part.

    Make it on all ranks of the group at the same point: it makes groups of its own (see `TwoPhases`).

    Args:
        group: None for the default group.
        block_size: numbers that share one scale, a multiple of 4. Smaller blocks: a smaller error, more bytes; the
            scales add 4 / block_size bytes per number.
        error_feedback: adds what was rounded away to the next step's gradients.

    Memory: 2 bytes per parameter and 5 per parameter of this rank's part, and 4 more of each with error feedback.

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
        self.phases = TwoPhases(self.group)
        self.exchanges: PerBucket[_Exchange] = PerBucket()


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
    return state.exchanges.get(bucket, lambda: _Exchange(state, bucket)).begin(bucket.buffer())


class _Exchange:
    """One bucket, step after step. Its memory is kept, because new memory costs as much time as the work on it."""

    def __init__(self, state: Int8State, bucket: dist.GradBucket) -> None:
        self.state = state
        floats = flat_floats(bucket.buffer())
        ranks, device = state.group.size(), floats.device
        self.blocks = make_blocks(floats.numel(), ranks, state.block_size, device)
        self.error = self.part_error = None
        if state.error_feedback:
            self.error = torch.zeros(self.blocks.count, dtype=torch.float32, device=device)
            self.part_error = torch.zeros(self.blocks.length, dtype=torch.float32, device=device)
        self.message, self.received = self.blocks.new_message(), self.blocks.new_message()
        self.part_message = self.blocks.new_message(rows=1)
        self.part = torch.empty(self.blocks.length, dtype=torch.float32, device=device)

    def begin(self, buffer: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        """Quantises the numbers in `buffer`, which holds the errors of that until the averages are there."""
        self.buffer, self.floats = buffer, flat_floats(buffer)
        self.wanted = self.floats.to(torch.float32)  # the same memory for float32
        self.blocks.encode(self.wanted, self.message, self.error)
        return self.state.phases.run(self.send, self.reduce, self.finish, buffer.device)

    def send(self) -> torch.futures.Future[Any]:
        """Starts the all-to-all."""
        group = self.state.phases.first_group
        return dist.all_to_all_single(self.received, self.message, group=group, async_op=True).get_future()

    def reduce(self) -> Start:
        """Averages this rank's part and quantises it; returns what starts the all-gather."""
        self.blocks.average(self.received, self.part, self.part_message, self.part_error)
        return self.gather

    def gather(self) -> torch.futures.Future[Any]:
        """Starts the all-gather, into the memory of the message that has been sent."""
        rows, group = list(self.message), self.state.phases.second_group
        return dist.all_gather(rows, self.part_message[0], group=group, async_op=True).get_future()

    def finish(self) -> torch.Tensor:
        """Keeps the errors and writes the averages into the bucket."""
        if self.part_error is not None:
            self.keep_part_error(self.part_error)
        self.blocks.decode(self.message, self.wanted, self.error)
        if self.wanted is not self.floats:
            self.floats.copy_(self.wanted)
        buffer = self.buffer
        del self.buffer, self.floats, self.wanted  # the bucket belongs to the caller
        return buffer

    def keep_part_error(self, before: torch.Tensor) -> None:
        """Makes what is in `part` the error of this rank's part, instead of `before`, if all averages are finite."""
        finite = self.blocks.finite(self.message)
        if not finite.is_cpu:
            keep_if(finite, before, self.part)
        elif finite.item():  # no copy
            self.part_error, self.part = self.part, before
