"""What torch 2.14 offers to look at any backend: its flight recorder and its check for NaN."""

from __future__ import annotations

import pickle

import pytest
import torch
import torch.distributed as dist
from harness import run
from torch._C import _distributed_c10d as c10d

pytestmark = pytest.mark.skipif(not hasattr(c10d, "FlightRecorderHook"), reason="torch < 2.14 has no such hooks")


def recorded(rank: int, world_size: int) -> None:
    handle = c10d.FlightRecorderHook.attach(dist.group.WORLD)
    tensor = torch.ones(6)
    dist.all_reduce(tensor)
    dist.all_reduce(tensor, async_op=True).wait()
    dist.reduce_scatter_tensor(torch.empty(6 // world_size), tensor)
    trace = pickle.loads(c10d._dump_fr_trace())
    names = [entry["profiling_name"] for entry in trace["entries"]]
    entries = [entry for entry in trace["entries"] if entry["input_sizes"] == [[6]]][:2]
    assert len(entries) == 2, names
    for entry in entries:
        assert entry["retired"]  # its end was noticed
    assert len(trace["entries"]) == 3
    handle.remove()
    dist.all_reduce(tensor)
    assert len(pickle.loads(c10d._dump_fr_trace())["entries"]) == 3


def test_flight_recorder() -> None:
    run(recorded, 2, env={"TORCH_FR_BUFFER_SIZE": "100"})


def nan_is_refused(rank: int, world_size: int) -> None:
    dist.all_reduce(torch.ones(5))
    with pytest.raises(RuntimeError, match=r"(?i)nan"):
        dist.all_reduce(torch.tensor([1.0, float("nan")]))
    dist.all_reduce(torch.ones(5))  # nothing was sent, so the group is as before


def test_nan_check() -> None:
    run(nan_is_refused, 2, env={"TORCH_DIST_NAN_CHECK": "1"})
