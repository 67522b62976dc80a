"""What can go wrong, one class each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Protocol

from torch import nn

from ucxring.ddp.watch import messages
from ucxring.ddp.watch.figures import is_straggler, rank_figures
from ucxring.ddp.watch.limits import Limits
from ucxring.ddp.watch.timings import Step


class Check(Protocol):
    """One kind of warning. It is given every step once, in order, and returns a message or None."""

    kind: str

    def __call__(self, step: Step) -> str | None:
        """Takes a step; the message when there is something to warn of."""


def unsynchronised_batch_norms(module: nn.Module, is_synchronised: Callable[[nn.Module], bool]) -> list[str]:
    """Names of the BatchNorm modules that use the statistics of this rank's batch alone. Those in eval mode do not."""
    return [
        name or type(each).__name__
        for name, each in module.named_modules()
        if isinstance(each, nn.modules.batchnorm._BatchNorm) and each.training and not is_synchronised(each)
    ]


class SameBatch:
    """The same batch on several ranks in the first steps."""

    kind = "same batch"

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._equal: Counter[int] = Counter()

    def __call__(self, step: Step) -> str | None:
        """Counts the ranks with equal hashes."""
        hashes = [batch for _, batch, _ in step.ranks]
        counts = Counter(each for each in hashes if each)
        self._equal.update(rank for rank, each in enumerate(hashes) if counts[each] > 1)
        ranks = sorted(rank for rank, equal in self._equal.items() if equal >= self._limits.equal_batches)
        return messages.same_batch(ranks, self._equal[ranks[0]]) if ranks else None


class Drift:
    """Parameters that are not the same on all ranks. `names` says what a step's hash covered."""

    kind = "drift"

    def __init__(self, names: Callable[[int], Sequence[str]]) -> None:
        self._names = names

    def __call__(self, step: Step) -> str | None:
        """Compares the hashes that were given."""
        hashes = {rank: parameters for rank, (_, _, parameters) in enumerate(step.ranks) if parameters}
        if len(set(hashes.values())) < 2:
            return None
        common, count = Counter(hashes.values()).most_common(1)[0]
        odd = [rank for rank, each in hashes.items() if each != common]
        if count > len(odd):
            ranks = f"rank {odd[0]} differs" if len(odd) == 1 else f"ranks {messages.listed(odd)} differ"
            ranks += " from the others"
        else:
            ranks = f"ranks {messages.listed(hashes)} differ"
        return messages.drift(ranks, self._names(step.number), step.number)


class Stragglers:
    """Ranks for which the others wait, over a window of steps."""

    kind = "straggler"

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._steps: list[Step] = []

    def __call__(self, step: Step) -> str | None:
        """Collects a window, judges it, and begins anew."""
        if not step.ranks:
            return None
        self._steps.append(step)
        if len(self._steps) < self._limits.window:
            return None
        slow = [each for each in rank_figures(self._steps) if is_straggler(each, self._limits)]
        self._steps.clear()
        return messages.straggler(slow) if slow else None


class Communication:
    """Communication that takes a large share of the steps of a window, which have few micro-batches."""

    kind = "communication"

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._steps: list[Step] = []

    def __call__(self, step: Step) -> str | None:
        """Collects a window, judges it, and begins anew."""
        self._steps.append(step)
        if len(self._steps) < self._limits.window:
            return None
        seconds = fmean(each.seconds for each in self._steps)
        exposed = fmean(each.exposed - each.waiting for each in self._steps)
        micro_batches = max(each.micro_batches for each in self._steps)
        self._steps.clear()
        if exposed <= self._limits.exposed * seconds or micro_batches >= self._limits.enough_micro_batches:
            return None
        return messages.communication(seconds, exposed, micro_batches, self._limits.exposed)
