"""The measured operations, on inputs whose results are exact in every type, so that they compare bit for bit."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from ucxring.bench.plan import CUT, MEMCPY, Plan

Group: TypeAlias = dist.ProcessGroup | None  # None: the default group
Allocate: TypeAlias = Callable[[int, torch.dtype], Tensor]  # a vector of zeros

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
        wrong = int((self.result.cpu() != self.exact_result()).sum())
        if wrong:
            raise RuntimeError(f"{backend}: {wrong} wrong elements in {self.what} of {self.bytes} bytes")
        self.clear()

    def clear(self) -> None:
        """Zeroes the buffers: sums of zeros stay finite however often they are repeated."""
        self.source.zero_()
        self.result.zero_()


def make(plan: Plan, rank: int, size: int, allocate: Allocate) -> Operation:
    """The plan's collective on a vector of `size` bytes, rounded up to whole elements and equal shares."""
    dtype = getattr(torch, plan.dtype)
    if plan.collective == "barrier":
        return _barrier()
    base = plan.collective.removesuffix("_list")
    if maker := _SHARED.get(base):
        share = max(1, -(-size // (dtype.itemsize * plan.ranks)))
        whole = allocate(share * plan.ranks, dtype)
        return maker(plan, rank, allocate(whole.numel() if base == "all_to_all" else share, dtype), whole)
    least = plan.parts if plan.collective in CUT else 1
    tensor = allocate(max(least, -(-size // dtype.itemsize)), dtype)
    return _WHOLE.get(base, _all_reduce)(plan, rank, tensor)


def _all_reduce(plan: Plan, rank: int, tensor: Tensor) -> Operation:
    op = _OPS[plan.op]
    parts = list(tensor.tensor_split(plan.parts))

    def run_async(group: Group) -> None:
        for work in [dist.all_reduce(part, op, group=group, async_op=True) for part in parts]:
            work.wait()

    runs: dict[str, Callable[[Group], object]] = {
        "all_reduce": lambda group: dist.all_reduce(tensor, op, group=group),
        "all_reduce_coalesced": lambda group: dist.all_reduce_coalesced(parts, op, group=group),
        "all_reduce_each": lambda group: [dist.all_reduce(part, op, group=group) for part in parts],
        "all_reduce_async": run_async,
    }

    return Operation(
        what=f"{plan.collective} {plan.op}",
        bytes=tensor.nbytes,
        source=tensor,
        result=tensor,
        exact_input=lambda: contribution(plan, rank, tensor.numel()),
        exact_result=lambda: combined(plan, tensor.numel()),
        run=runs[plan.collective],
    )


def _reduce(plan: Plan, rank: int, tensor: Tensor) -> Operation:
    result = tensor if rank == 0 else tensor[:0]  # what other ranks find in theirs differs between backends
    return Operation(
        what=f"reduce {plan.op}",
        bytes=tensor.nbytes,
        source=tensor,
        result=result,
        exact_input=lambda: contribution(plan, rank, tensor.numel()),
        exact_result=lambda: combined(plan, result.numel()),
        run=lambda group: dist.reduce(tensor, 0, _OPS[plan.op], group=group),
    )


def _broadcast(plan: Plan, rank: int, tensor: Tensor) -> Operation:
    return Operation(
        what="broadcast",
        bytes=tensor.nbytes,
        source=tensor,
        result=tensor,
        exact_input=lambda: contribution(plan, rank, tensor.numel()),
        exact_result=lambda: contribution(plan, 0, tensor.numel()),
        run=lambda group: dist.broadcast(tensor, 0, group=group),
    )


def _all_gather(plan: Plan, rank: int, own: Tensor, whole: Tensor) -> Operation:
    share = own.numel()
    parts = list(whole.chunk(plan.ranks))

    def run(group: Group) -> object:
        if plan.collective == "all_gather_list":
            return dist.all_gather(parts, own, group=group)
        return dist.all_gather_into_tensor(whole, own, group=group)

    return Operation(
        what=plan.collective,
        bytes=whole.nbytes,
        source=own,
        result=whole,
        exact_input=lambda: contribution(plan, rank, share),
        exact_result=lambda: _shares(plan, share),
        run=run,
    )


def _reduce_scatter(plan: Plan, rank: int, own: Tensor, whole: Tensor) -> Operation:
    share = own.numel()
    parts = list(whole.chunk(plan.ranks))

    def run(group: Group) -> object:
        if plan.collective == "reduce_scatter_list":
            return dist.reduce_scatter(own, parts, _OPS[plan.op], group=group)
        return dist.reduce_scatter_tensor(own, whole, _OPS[plan.op], group=group)

    return Operation(
        what=f"{plan.collective} {plan.op}",
        bytes=whole.nbytes,
        source=whole,
        result=own,
        exact_input=lambda: contribution(plan, rank, whole.numel()),
        exact_result=lambda: combined(plan, whole.numel())[rank * share : (rank + 1) * share],
        run=run,
    )


def _gather(plan: Plan, rank: int, own: Tensor, whole: Tensor) -> Operation:
    share = own.numel()
    parts = list(whole.chunk(plan.ranks)) if rank == 0 else None
    return Operation(
        what="gather",
        bytes=whole.nbytes,
        source=own,
        result=whole if rank == 0 else whole[:0],
        exact_input=lambda: contribution(plan, rank, share),
        exact_result=lambda: _shares(plan, share) if rank == 0 else own.new_empty(0),
        run=lambda group: dist.gather(own, parts, 0, group=group),
    )


def _scatter(plan: Plan, rank: int, own: Tensor, whole: Tensor) -> Operation:
    share = own.numel()
    parts = list(whole.chunk(plan.ranks)) if rank == 0 else None
    return Operation(
        what="scatter",
        bytes=whole.nbytes,
        source=whole,
        result=own,
        exact_input=lambda: _shares(plan, share),
        exact_result=lambda: contribution(plan, rank, share),
        run=lambda group: dist.scatter(own, parts, 0, group=group),
    )


def _all_to_all(plan: Plan, rank: int, result: Tensor, source: Tensor) -> Operation:
    share = source.numel() // plan.ranks
    return Operation(
        what="all_to_all",
        bytes=source.nbytes,
        source=source,
        result=result,
        exact_input=lambda: contribution(plan, rank, source.numel()),
        exact_result=lambda: torch.cat(
            [contribution(plan, each, source.numel())[rank * share : (rank + 1) * share] for each in range(plan.ranks)]
        ),
        run=lambda group: dist.all_to_all_single(result, source, group=group),
    )


def _shares(plan: Plan, share: int) -> Tensor:
    """The contributions of all ranks, one after the other."""
    return torch.cat([contribution(plan, each, share) for each in range(plan.ranks)])


def _barrier() -> Operation:
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


_SHARED = {
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "gather": _gather,
    "scatter": _scatter,
    "all_to_all": _all_to_all,
}
_WHOLE = {"broadcast": _broadcast, "reduce": _reduce}


def copying(size: int) -> Operation:
    """Not a collective: each rank copies `size` bytes from one tensor to another with the C library's memcpy.

    The sources hold values, since pages never written to share one page of zeros and are read faster than memory.
    """
    source, result = torch.ones(size, dtype=torch.uint8), torch.ones(size, dtype=torch.uint8)
    target, origin = result.data_ptr(), source.data_ptr()
    return Operation(
        what=MEMCPY,
        bytes=size,
        source=source,
        result=result,
        exact_input=lambda: source,
        exact_result=lambda: source,
        run=lambda _group: ctypes.memmove(target, origin, size),
    )
