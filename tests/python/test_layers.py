"""What stands on process groups: functional collectives, torch.compile, DTensor, FSDP2, checkpoints, ZeRO, objects."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.distributed.checkpoint as dcp
import torch.distributed.nn.functional as differentiable
from harness import run
from test_collectives import usable
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

LAYERS = [(8, 7), (7, 5), (5, 3)]  # 7 and 5 rows cannot be shared out evenly


def make_model(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(*(nn.Linear(*sizes, dtype=dtype) for sizes in LAYERS))


def batch(step: int, rank: int) -> torch.Tensor:
    return torch.randn(4, LAYERS[0][0], generator=torch.Generator().manual_seed(100 * step + rank))


def train_alone(model: nn.Module, steps: int, world_size: int, factor: float | None = None) -> None:
    """Steps of plain SGD whose gradient is the mean over all ranks' batches, or their sum over `factor`."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        for rank in range(world_size):
            (model(batch(step, rank)).square().mean() / (factor or world_size)).backward()
        optimizer.step()


def collectives(tensor: torch.Tensor, world_size: int) -> list[torch.Tensor]:
    """Functional collectives on (2 × world size, 3)."""
    group = dist.group.WORLD
    total = funcol.all_reduce(tensor * 2, "sum", group)
    gathered = funcol.all_gather_tensor(tensor, 0, group)
    columns = funcol.all_gather_tensor(tensor, 1, group)
    part = funcol.reduce_scatter_tensor(tensor + 1, "sum", 0, group)
    mean = funcol.reduce_scatter_tensor(tensor + 1, "avg", 0, group)
    swapped = funcol.all_to_all_single(tensor, None, None, group)
    several = funcol.all_reduce_coalesced([tensor, tensor * 3], "max", group)
    lead = funcol.broadcast(tensor + 5, 1, group)
    return [total.sum(), total, gathered, columns, part, mean, swapped, *several, lead]


def functional(rank: int, world_size: int) -> None:
    shape = (2 * world_size, 3)
    all_ranks = [torch.arange(6.0 * world_size).view(shape) + 100 * each for each in range(world_size)]
    mine = all_ranks[rank].clone()
    total = torch.stack(all_ranks).sum(0)
    rows = slice(2 * rank, 2 * rank + 2)
    expected = [
        (2 * total).sum(),
        2 * total,
        torch.cat(all_ranks),
        torch.cat(all_ranks, 1),
        (total + world_size)[rows],
        (total / world_size + 1)[rows],
        torch.cat([each[rows] for each in all_ranks]),
        all_ranks[-1],
        3 * all_ranks[-1],
        all_ranks[1] + 5,
    ]
    for call in (collectives, torch.compile(collectives, fullgraph=True, backend="aot_eager")):
        results = call(mine, world_size)
        for result, right in zip(results, expected, strict=True):
            assert torch.equal(result, right), (result, right)
    assert torch.equal(mine, all_ranks[rank])
    leaf = torch.full((2,), rank + 1.0, requires_grad=True)
    joined = torch.cat(differentiable.all_gather(leaf))
    (joined * (torch.arange(2.0 * world_size) + rank)).sum().backward()
    own = torch.arange(2.0) + 2 * rank
    assert torch.equal(leaf.grad, world_size * own + sum(range(world_size)))
    with torch.inference_mode():
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert tensor[0] == world_size
    with torch.no_grad():
        leaf = torch.ones(3, requires_grad=True)
        dist.broadcast(leaf, 0)
        dist.reduce(leaf, 0)


def tensors_on_a_mesh(rank: int, world_size: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("outer", "inner"))
    whole = torch.arange(35.0).view(7, 5)
    for source in ([Shard(0), Replicate()], [Shard(1), Shard(0)], [Replicate(), Replicate()]):
        tensor = distribute_tensor(whole, mesh, source)
        for target in ([Shard(1), Replicate()], [Replicate(), Shard(0)], [Replicate(), Replicate()]):
            moved = tensor.redistribute(mesh, target)
            assert torch.equal(moved.full_tensor(), whole), (source, target)
    inner = mesh["inner"]
    partial = DTensor.from_local(whole * (inner.get_local_rank() + 1), inner, [Partial()])
    assert torch.equal(partial.redistribute(inner, [Shard(0)]).full_tensor(), 3 * whole)
    assert torch.equal(partial.full_tensor(), 3 * whole)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6))
    torch.manual_seed(5)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    reference = copy.deepcopy(model)
    parallel = parallelize_module(model, inner, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    inputs = torch.randn(3, 6)
    torch.testing.assert_close(parallel(inputs), reference(inputs), rtol=1e-5, atol=1e-5)
    parallel(inputs).square().sum().backward()
    reference(inputs).square().sum().backward()
    grad = parallel[0].weight.grad.full_tensor()
    torch.testing.assert_close(grad, reference[0].weight.grad, rtol=1e-4, atol=1e-4)


def test_mesh() -> None:
    run(tensors_on_a_mesh, 4)


def shard(model: nn.Sequential, mesh: DeviceMesh, **options: object) -> nn.Sequential:
    for layer in model:
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def train_sharded(model: nn.Module, steps: int, rank: int) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        model(batch(step, rank)).square().mean().backward()
        optimizer.step()
    return optimizer


def assert_equal_models(model: nn.Module, reference: nn.Module, tolerance: float) -> None:
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        full = ours.full_tensor() if isinstance(ours, DTensor) else ours
        torch.testing.assert_close(full, theirs, rtol=tolerance, atol=tolerance)


def sharded_training(rank: int, world_size: int) -> None:
    mesh = init_device_mesh("cpu", (world_size,))
    for factor in (None, 4.0):
        reference = make_model()
        model = shard(make_model(), mesh)
        if factor is not None:
            for module in model.modules():
                if hasattr(module, "set_gradient_divide_factor"):
                    module.set_gradient_divide_factor(factor)
        train_alone(reference, 4, world_size, factor)
        train_sharded(model, 4, rank)
        assert_equal_models(model, reference, 1e-5)
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = shard(make_model(), mesh, mp_policy=half)
    train_sharded(model, 4, rank)
    reference = make_model()
    train_alone(reference, 4, world_size)
    assert_equal_models(model, reference, 5e-2)


def accumulate(rank: int, world_size: int) -> None:
    """Two backward passes, the first without communication."""
    model = shard(make_model(), init_device_mesh("cpu", (world_size,)))
    reference = make_model()
    for step in range(2):
        model.set_requires_gradient_sync(step == 1)
        model(batch(step, rank)).square().mean().backward()
        for each in range(world_size):
            (reference(batch(step, each)).square().mean() / world_size).backward()
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.full_tensor(), theirs.grad, rtol=1e-5, atol=1e-6)


def save_checkpoint(rank: int, world_size: int, folder: str) -> list[torch.Tensor]:
    model = shard(make_model(), init_device_mesh("cpu", (world_size,)))
    optimizer = train_sharded(model, 2, rank)
    model_state, optimizer_state = get_state_dict(model, optimizer)
    dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=f"{folder}/now")
    second = dist.new_group()
    saving = dcp.async_save({"model": model_state}, checkpoint_id=f"{folder}/later", process_group=second)
    frozen = [parameter.full_tensor().clone() for parameter in model.parameters()]
    saving.result()
    train_sharded(model, 1, rank)
    return frozen


def load_checkpoint(rank: int, world_size: int, folder: str, expected: list[torch.Tensor]) -> None:
    for name in ("now", "later"):
        model = shard(make_model(), init_device_mesh("cpu", (world_size,)))
        optimizer = train_sharded(model, 1, rank)
        model_state, optimizer_state = get_state_dict(model, optimizer)
        state = {"model": model_state} | ({"optimizer": optimizer_state} if name == "now" else {})
        dcp.load(state, checkpoint_id=f"{folder}/{name}")
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=optimizer_state)
        for parameter, right in zip(model.parameters(), expected, strict=True):
            assert torch.equal(parameter.full_tensor(), right)


def test_checkpoint_moves_between_world_sizes(tmp_path: Path) -> None:
    saved = run(save_checkpoint, 3, str(tmp_path))
    run(load_checkpoint, 2, str(tmp_path), saved[0])


def missing_checkpoint(rank: int, world_size: int) -> None:
    model = shard(make_model(), init_device_mesh("cpu", (world_size,)))
    with pytest.raises(CheckpointException, match="metadata is None"):
        dcp.load({"model": model.state_dict()}, checkpoint_id=f"{tempfile.gettempdir()}/there-is-no-checkpoint-here")
    usable(world_size)


def redundant_optimizer(rank: int, world_size: int) -> None:
    reference = make_model()
    wrapped = DistributedDataParallel(make_model())
    optimizer = ZeroRedundancyOptimizer(wrapped.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    for step in range(3):
        optimizer.zero_grad()
        wrapped(batch(step, rank)).square().mean().backward()
        optimizer.step()
    train_alone(reference, 3, world_size)
    assert_equal_models(wrapped.module, reference, 1e-5)
    optimizer.consolidate_state_dict(to=0)
    if rank == 0:
        assert len(optimizer.state_dict()["state"]) == 2 * len(LAYERS)


def sparse_gradients(rank: int, world_size: int) -> None:
    embedding = nn.Embedding(10, 3, sparse=True)
    wrapped = DistributedDataParallel(embedding)
    wrapped(torch.tensor([rank, 5, 5])).sum().backward()
    grad = embedding.weight.grad.to_dense()
    expected = torch.zeros(10, 3)
    expected[:world_size] = 1 / world_size
    expected[5] += 2
    torch.testing.assert_close(grad, expected)


def objects(rank: int, world_size: int) -> None:
    own = None if rank == 1 else list(range(10 ** (2 * rank)))
    gathered: list[object] = [None] * world_size
    dist.all_gather_object(gathered, own)
    assert gathered == [None if each == 1 else list(range(10 ** (2 * each))) for each in range(world_size)]
    at_root = [None] * world_size if rank == 0 else None
    dist.gather_object({"rank": rank}, at_root, dst=0)
    assert rank != 0 or at_root == [{"rank": each} for each in range(world_size)]
    received: list[object] = [None]
    dist.scatter_object_list(received, [f"for {each}" for each in range(world_size)] if rank == 1 else None, src=1)
    assert received == [f"for {rank}"]
    with pytest.raises(Exception, match=r"(?i)pickle|local"):
        dist.all_gather_object(gathered, lambda: rank)
    usable(world_size)


def pipeline(rank: int, world_size: int) -> None:
    """A stage on each rank, four micro-batches, GPipe and 1F1B, against the whole model in one process."""
    torch.manual_seed(7)
    stages = [nn.Linear(6, 6) for _ in range(world_size)]
    reference = copy.deepcopy(nn.Sequential(*stages))
    inputs, targets = torch.randn(8, 6), torch.randn(8, 6)
    for kind in (ScheduleGPipe, Schedule1F1B):
        stage = PipelineStage(stages[rank], rank, world_size, torch.device("cpu"))
        schedule = kind(stage, 4, loss_fn=nn.functional.mse_loss)
        for _ in range(2):
            losses: list[torch.Tensor] = []
            last = rank == world_size - 1
            arguments = (inputs,) if rank == 0 else ()
            outputs = schedule.step(*arguments, **({"target": targets, "losses": losses} if last else {}))
            right = reference(inputs)
            loss = nn.functional.mse_loss(right, targets)
            loss.backward()
            if last:
                torch.testing.assert_close(outputs, right, rtol=1e-5, atol=1e-6)
                torch.testing.assert_close(torch.stack(losses).mean(), loss, rtol=1e-5, atol=1e-6)
            for ours, theirs in zip(stages[rank].parameters(), reference[rank].parameters(), strict=True):
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-5, atol=1e-6)
            stages[rank].zero_grad()
            reference.zero_grad()


def layers(rank: int, world_size: int) -> None:
    for part in (functional, objects, sharded_training, accumulate, missing_checkpoint):
        part(rank, world_size)
    for part in (redundant_optimizer, sparse_gradients, pipeline):
        part(rank, world_size)


@pytest.mark.parametrize("world_size", [2, 3])
def test_layers(world_size: int) -> None:
    run(layers, world_size, watchdog_s=240)
