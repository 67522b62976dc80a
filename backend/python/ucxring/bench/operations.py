"""The measured operations, on inputs whose results are exact in every type, so that they compare bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from ucxring.bench.plan import Plan

Group: TypeAlias = dist.ProcessGroup | None  # None: the default group

_OPS = {
    "sum": dist.ReduceOp.SUM,
    "avg": dist.ReduceOp.AVG,
    "product": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
}


def contribution(plan: Plan, rank: int, elements: int) -> Tensor:
    """What `rank` puts in: small whole numbers that depend on rank and position."""
    index = torch.arange(elements)
    whole = 1 + (index + rank) % 2 if plan.op == "product" else 1 + (index + rank) % 13
    return whole.to(getattr(torch, plan.dtype))


def combined(plan: Plan, elements: int) -> Tensor:
    """The reduction of all ranks' contributions."""
    total = contribution(plan, 0, elements).double()
    for rank in range(1, plan.ranks):
        other = contribution(plan, rank, elements).double()
        if plan.op in ("sum", "avg"):
            total += other
        elif plan.op == "product":
            total *= other
        else:
            total = (torch.minimum if plan.op == "min" else torch.maximum)(total, other)
    if plan.op == "avg":
        total /= plan.ranks
    return total.to(getattr(torch, plan.dtype))


@dataclass(frozen=True)
class Operation:
    """One collective on the buffers of one rank."""

    what: str
    bytes: int  # of the whole vector
    source: Tensor
    result: Tensor  # may be `source`
    exact_input: Callable[[], Tensor]
    exact_result: Callable[[], Tensor]
    run: Callable[[Group], object]  # calls the collective and waits for it

    def check(self, group: Group, backend: str) -> None:
        """Runs once on the exact inputs. Raises RuntimeError when a bit of the result is wrong."""
        self.source.copy_(self.exact_input())
        self.run(group)
        wrong = int((self.result != self.exact_result()).sum())
        if wrong:
            raise RuntimeError(f"{backend}: {wrong} wrong elements in {self.what} of {self.bytes} bytes")
        self.clear()

    def clear(self) -> None:
        """Zeroes the buffers: sums of zeros stay finite however often they are repeated."""
        self.source.zero_()
        self.result.zero_()


def make(plan: Plan, rank: int, size: int) -> Operation:
    """The plan's collective on a vector of `size` bytes, rounded up to whole elements and equal shares."""
    dtype = getattr(torch, plan.dtype)
    share = max(1, -(-size // (dtype.itemsize * plan.ranks)))
    elements = max(1, -(-size // dtype.itemsize))
    return _MAKERS[plan.collective](plan, rank, elements, share)


def _all_reduce(plan: Plan, rank: int, elements: int, _share: int) -> Operation:
    tensor = torch.zeros(elements, dtype=getattr(torch, plan.dtype))
    return Operation(
        what=f"all_reduce {plan.op}",
        bytes=tensor.nbytes,
        source=tensor,
        result=tensor,
        exact_input=lambda: contribution(plan, rank, elements),
        exact_result=lambda: combined(plan, elements),
        run=lambda group: dist.all_reduce(tensor, _OPS[plan.op], group=group),
    )


def _broadcast(plan: Plan, rank: int, elements: int, _share: int) -> Operation:
    tensor = torch.zeros(elements, dtype=getattr(torch, plan.dtype))
    return Operation(
        what="broadcast",
        bytes=tensor.nbytes,
        source=tensor,
        result=tensor,
        exact_input=lambda: contribution(plan, rank, elements),
        exact_result=lambda: contribution(plan, 0, elements),
        run=lambda group: dist.broadcast(tensor, 0, group=group),
    )


def _all_gather(plan: Plan, rank: int, _elements: int, share: int) -> Operation:
    part = torch.zeros(share, dtype=getattr(torch, plan.dtype))
    whole = torch.zeros(share * plan.ranks, dtype=part.dtype)
    return Operation(
        what="all_gather",
        bytes=whole.nbytes,
        source=part,
        result=whole,
        exact_input=lambda: contribution(plan, rank, share),
        exact_result=lambda: torch.cat([contribution(plan, each, share) for each in range(plan.ranks)]),
        run=lambda group: dist.all_gather_into_tensor(whole, part, group=group),
    )


def _reduce_scatter(plan: Plan, rank: int, _elements: int, share: int) -> Operation:
    part = torch.zeros(share, dtype=getattr(torch, plan.dtype))
    whole = torch.zeros(share * plan.ranks, dtype=part.dtype)
    return Operation(
        what=f"reduce_scatter {plan.op}",
        bytes=whole.nbytes,
        source=whole,
        result=part,
        exact_input=lambda: contribution(plan, rank, whole.numel()),
        exact_result=lambda: combined(plan, whole.numel())[rank * share : (rank + 1) * share],
        run=lambda group: dist.reduce_scatter_tensor(part, whole, _OPS[plan.op], group=group),
    )


def _barrier(_plan: Plan, _rank: int, _elements: int, _share: int) -> Operation:
    nothing = torch.empty(0)
    return Operation(
        what="barrier",
        bytes=0,
        source=nothing,
        result=nothing,
        exact_input=lambda: nothing,
        exact_result=lambda: nothing,
        run=lambda group: dist.barrier(group=group),
    )


_MAKERS = {
    "all_reduce": _all_reduce,
    "broadcast": _broadcast,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "barrier": _barrier,
}
