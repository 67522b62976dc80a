"""Micro-batches: several forwards and backwards for one averaging of gradients and one optimizer step."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from ucxring.ddp import nested
from ucxring.ddp.nested import split
from ucxring.ddp.watch.warner import DDPWarning

__all__ = ["MicroBatch", "accumulate", "split"]


class MicroBatch:
    """One micro-batch of a group: its data, and its share of the group's loss.

    It unpacks and indexes like its data: ``inputs, targets = micro``, ``micro["input_ids"]``.
    """

    def __init__(self, data: Any, index: int, steps: int, weight: float) -> None:
        self.data = data
        self.index = index  # in its group, from 0
        self.steps = steps  # micro-batches in the group; the last group of a loader may have fewer
        self.weight = weight  # its part of the group's samples
        self.was_scaled = False  # whether `scale` or `backward` was called

    @property
    def is_last(self) -> bool:
        """Whether it ends its group: its backward averages the gradients, and the optimizer steps after it."""
        return self.index + 1 == self.steps

    def scale(self, loss: Tensor) -> Tensor:
        """The loss times `weight`; for backward by hand, as with ``scaler.scale(micro.scale(loss)).backward()``.

        `loss` is a mean over the micro-batch, as losses of torch are by default. The gradients of all micro-batches
        of a group then add up to those of the mean over the whole group.
        """
        self.was_scaled = True
        return loss * self.weight

    def backward(self, loss: Tensor) -> None:
        """Backward of the scaled loss, into the gradients; the last one of a group averages them over all ranks."""
        self.scale(loss).backward()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data)

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]

    def __len__(self) -> int:
        return len(self.data)


def accumulate(
    ddp: nn.Module,
    batches: Iterable[Any],
    steps: int | None = None,
    *,
    weigh: Callable[[Any], float] | None = None,
) -> Iterator[MicroBatch]:
    """Yields the micro-batches that `batches` delivers, in groups of `steps`; None: all are one group.

        for micro in ddp.accumulate(loader, steps=4):
            inputs, targets = micro
            micro.backward(loss_function(ddp(inputs), targets))
            if micro.is_last:
                optimizer.step()
                optimizer.zero_grad()

    Forward and backward belong into the loop's body. Only the last micro-batch of a group communicates: the others run
    in ``ddp.no_sync()``, which is all that is asked of `ddp`, so that torch's wrapper does, too; a module without it
    (one process) just trains.

    Losses are scaled so that a group gives the gradient of the mean loss over all its samples, also when its
    micro-batches differ in size. `weigh` gives what a micro-batch counts, by default its samples, dimension 0 of its
    first tensor; a model of texts would count tokens. A group whose weights are all 0 raises ValueError.

    A group is read from `batches` before its first forward: its length must be known to scale by. When `batches` ends
    early, the last group is shorter and still a mean over what it has. All ranks must have equally many groups, not
    equally many micro-batches in them. To split one batch: ``ddp.accumulate(split(batch, 4))``.

    A `break` or an exception leaves `ddp` as it was before (an iterator kept in a variable: once that is closed);
    gradients then hold what was added up so far, so call ``zero_grad``. When other ranks go on, they wait for this one.
    """
    if isinstance(batches, Tensor | Mapping):
        kind = type(batches).__name__
        raise TypeError(
            f"accumulate takes an iterable of micro-batches, not one {kind}: use split({kind.lower()}, steps)"
        )
    if steps is not None and steps < 1:
        raise ValueError(f"a group has at least 1 micro-batch, not {steps}")
    return _micro_batches(ddp, iter(batches), steps, weigh or _samples)


def _micro_batches(
    ddp: nn.Module, batches: Iterator[Any], steps: int | None, weigh: Callable[[Any], float]
) -> Iterator[MicroBatch]:
    warned = False
    while group := list(itertools.islice(batches, steps)):
        weights = [float(weigh(data)) for data in group]
        total = sum(weights)
        if not total > 0:
            raise ValueError(f"the micro-batches of a group have the weights {weights}: nothing to take a mean over")
        for index, weight in enumerate(weights):
            micro = MicroBatch(group[index], index, len(group), weight / total)
            group[index] = None  # the loop holds it as long as it needs it
            with contextlib.nullcontext() if micro.is_last else _no_sync(ddp):
                yield micro
            if not micro.was_scaled and not warned:
                warned = True
                warnings.warn(_UNSCALED, DDPWarning, stacklevel=2)


_UNSCALED = (
    "the loop over accumulate(...) did not scale the loss of a micro-batch: gradients are too large, or missing. Call "
    "micro.backward(loss) instead of loss.backward(), or micro.scale(loss).backward()."
)


def _no_sync(ddp: nn.Module) -> contextlib.AbstractContextManager[Any]:
    """The wrapper's own context for backward without communication."""
    context: contextlib.AbstractContextManager[Any] = getattr(ddp, "no_sync", contextlib.nullcontext)()
    return context


def _samples(data: Any) -> float:
    """What a micro-batch counts: its samples; 1 when it has no tensor."""
    count = nested.sample_count(data)
    return 1.0 if count is None else float(count)
