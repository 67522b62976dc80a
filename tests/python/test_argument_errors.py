"""What wrong arguments are told: which operation, which argument, what was given and what is wanted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from harness import run
from test_collectives import AVG, MAX, usable

import ucxring

PREFIX = r"^ucxring \[invalid_argument\] "
LARGEST = 2**63 - 1
Calls = dict[str, Callable[[], object]]


def refuse(error: type[Exception], calls: Calls, prefix: str = PREFIX) -> None:
    for message, call in calls.items():
        with pytest.raises(error, match=prefix + message):
            call()


def with_root(kind: type, root: int) -> object:
    options = kind()
    options.rootRank = root
    return options


def lists(rank: int, world_size: int) -> None:
    group = dist.group.WORLD
    tensor = torch.ones(4)
    parts = [torch.empty(4) for _ in range(world_size)]
    longer = [torch.empty(5) for _ in range(world_size)]
    gathering, elsewhere = (with_root(dist.GatherOptions, root) for root in (rank, (rank + 1) % world_size))
    refuse(
        ValueError,
        {
            "broadcast: root 9 is not a rank of this group of 2": lambda: group.broadcast(
                [tensor], with_root(dist.BroadcastOptions, 9)
            ),
            "all_gather: the output list needs one tensor for each of the 2 ranks, got 1": lambda: group.allgather(
                [[tensor]], [tensor]
            ),
            rf"all_gather: the output tensor for this rank, {rank}, has 5 elements, the input 4; they must": lambda: (
                dist.all_gather(longer, tensor)
            ),
            rf"reduce_scatter: the input tensor for this rank, {rank}, has 5 elements, the output 4; they": lambda: (
                dist.reduce_scatter(tensor, longer)
            ),
            rf"gather: tensor {rank} of the output list has 5 elements, the root's own input tensor 4": lambda: (
                group.gather([longer], [tensor], gathering)
            ),
            "gather: only the root takes an output list, but this rank gives one of 2 tensors": lambda: group.gather(
                [parts], [tensor], elsewhere
            ),
            "all_gather_coalesced: the output tensor for this rank": lambda: dist.all_gather_coalesced(
                [[each] for each in longer], [tensor]
            ),
            "all_gather_into_tensor: the output tensor has 7 elements; it must have 8": lambda: (
                dist.all_gather_into_tensor(torch.empty(7), tensor)
            ),
        },
    )
    mixed = [torch.empty(4), torch.empty(4, dtype=torch.int32)]
    wrong = r"tensor 1 of the {} list is Int, the {} tensor Float; all must have the same dtype"
    scattering = dist.ReduceScatterOptions()
    refuse(
        TypeError,
        {
            "all_gather: " + wrong.format("output", "input"): lambda: group.allgather([mixed], [tensor]),
            "reduce_scatter: " + wrong.format("input", "output"): lambda: group.reduce_scatter(
                [tensor], [mixed], scattering
            ),
            "all_to_all: " + wrong.format("input", "first input"): lambda: group.alltoall(parts, mixed),
        },
    )


def splits(rank: int, world_size: int) -> None:
    one, two = torch.ones(4), torch.empty(4)

    def exchange(outputs: list[int] | None, inputs: list[int] | None) -> Callable[[], object]:
        return lambda: dist.all_to_all_single(two, one, outputs, inputs)

    refuse(
        ValueError,
        {
            "all_to_all_single: the output splits are 1 number; there must be one for each of the 2": exchange(
                [4], [2, 2]
            ),
            "all_to_all_single: the input splits are 3 numbers; there must be one for each": exchange(
                [2, 2], [1, 1, 2]
            ),
            "all_to_all_single: input split -1 is negative": exchange([2, 2], [-1, 5]),
            "all_to_all_single: the output splits add up to 3, but the output tensor has 4 rows": exchange(
                [1, 2], [2, 2]
            ),
            "all_to_all_single: the input splits add up to more than memory can hold, but": exchange(
                [2, 2], [LARGEST, 1]
            ),
            f"all_to_all_single: the output splits add up to {LARGEST}, but": exchange([LARGEST, 0], [2, 2]),
            "all_to_all: input and output overlap; it has no form in place": lambda: dist.all_to_all_single(one, one),
            "all_gather: input and output overlap other than in place": lambda: dist.all_gather_into_tensor(
                one, one[1:3]
            ),
        },
    )


def more_than_memory(rank: int, world_size: int) -> None:
    """Expanded tensors may count more elements than memory has bytes; their number must not wrap."""
    half = torch.ones(1, dtype=torch.int8).expand(2**62)
    output = torch.empty(0, dtype=torch.int8)
    whole = torch.ones(1, dtype=torch.int8).expand(LARGEST)
    refuse(
        ValueError,
        {
            "all_gather_into_tensor: the output tensor has 0 elements; it must have more than memory": lambda: (
                dist.all_gather_into_tensor(output, half)
            ),
            "all_to_all: the tensors of the input list have together more bytes than memory": lambda: dist.all_to_all(
                [output] * world_size, [whole] * world_size
            ),
        },
    )


def unsupported(rank: int, world_size: int) -> None:
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    integers = torch.ones(4, dtype=torch.int64)
    average = "reduction average is not defined for int64: use sum"
    refuse(
        NotImplementedError,
        {
            "all_reduce: " + average: lambda: dist.all_reduce(integers, AVG),
            "reduce: " + average: lambda: dist.reduce(integers, 0, AVG),
            "reduce_scatter_tensor: " + average: lambda: dist.reduce_scatter_tensor(
                torch.empty_like(integers[:2]), integers, AVG
            ),
            "broadcast: sparse (input|output) tensor": lambda: backend.broadcast(
                [torch.eye(3).to_sparse()], dist.BroadcastOptions()
            ),
        },
        r"^ucxring \[unsupported\] ",
    )
    odd = torch.empty(3, dtype=torch.float8_e8m0fnu)
    sparse = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.tensor([4.0]), (3 + rank,))
    refuse(TypeError, {"all_reduce: tensors of dtype Float8_e8m0fnu cannot be reduced": lambda: dist.all_reduce(odd)})
    refuse(
        ValueError,
        {
            "all_reduce of sparse tensors: the reduce operation is max, but the only": lambda: dist.all_reduce(
                sparse, MAX
            ),
            rf"all_reduce of sparse tensors: the tensor of rank {1 - rank} has another shape than that of this rank: "
            rf"shape \[{4 - rank}\] with 1 sparse dimension and shape \[{3 + rank}\]": lambda: dist.all_reduce(sparse),
        },
    )


def others(rank: int, world_size: int) -> None:
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    refuse(ValueError, {"send to rank 9, which is not a rank": lambda: dist.group.WORLD.send([torch.ones(1)], 9, 0)})
    work = backend.recv([torch.ones(1)], 1 - rank, 7)
    with pytest.raises(
        dist.DistBackendError, match=rf"^ucxring \[timeout\] wait\(\) of 10 ms is over.*of rank {rank} "
    ):
        work.wait(timedelta(milliseconds=10))
    dist.barrier()
    dist.send(torch.ones(1), 1 - rank, tag=7)
    work.wait()


def everything(rank: int, world_size: int) -> None:
    for part in (lists, splits, more_than_memory, unsupported, others):
        part(rank, world_size)
        usable(world_size)


def test_argument_errors() -> None:
    run(everything, 2)


def test_errors_of_options() -> None:
    options = ucxring.Options()
    with pytest.raises(ValueError, match=PREFIX + r"ucxring\.Options\.timeout is 0 ms; it must be positive"):
        options.timeout = timedelta(0)
    with pytest.raises(TypeError, match=PREFIX + r"ucxring\.Options\.lanes takes"):
        options.lanes = 1.5
