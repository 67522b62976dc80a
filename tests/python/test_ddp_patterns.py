"""Uses beyond one forward and backward: gradients of inputs, adversaries, copies, other parallelism."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from ddp_training import TINY_CAP_MB, WRAPPERS, assert_gradients_match, batch, loss_of, make_model
from harness import run
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.optim import _apply_optimizer_in_backward
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.optim.swa_utils import AveragedModel

import ucxring

Net = Callable[..., Tensor]


def gradient_penalty(model: Net, inputs: Tensor) -> Tensor:
    between = (inputs + 1).requires_grad_()
    (slope,) = torch.autograd.grad(model(between).sum(), between, create_graph=True)
    return model(inputs).square().mean() + (slope.norm(dim=1) - 1).square().mean()


def adversarial(model: Net, inputs: Tensor) -> Tensor:
    inputs = inputs.requires_grad_()
    (slope,) = torch.autograd.grad(model(inputs).square().mean(), inputs)
    return model((inputs + 0.1 * slope.sign()).detach()).square().mean()


def input_gradient_only(model: Net, inputs: Tensor) -> Tensor:
    inputs = inputs.requires_grad_()
    model(inputs).sum().backward(inputs=[inputs])
    return model(inputs.detach()).square().mean()


def norm_of_a_gradient(model: nn.Module, inputs: Tensor) -> Tensor:
    loss = model(inputs).square().mean()
    torch.autograd.grad(loss, list(model.parameters())[-2], retain_graph=True)
    return loss


def through_the_output(model: Net, inputs: Tensor) -> Tensor:
    output = model(inputs)
    (slope,) = torch.autograd.grad(output.square().mean(), output)
    return (output * slope).sum()


PATTERNS = [gradient_penalty, adversarial, input_gradient_only, norm_of_a_gradient, through_the_output]


def restricted(rank: int, world_size: int, find_unused: bool) -> None:
    for pattern in PATTERNS:
        reference = make_model()
        model = copy.deepcopy(reference)
        ddp = ucxring.DistributedDataParallel(model, find_unused_parameters=find_unused)
        for step in range(3):
            for each in range(world_size):
                (pattern(reference, batch(step, each)[0]) / world_size).backward()
            pattern(ddp, batch(step, rank)[0]).backward()
            assert_gradients_match(model, reference, 1e-5)
            model.zero_grad()
            reference.zero_grad()


@pytest.mark.parametrize("find_unused", [False, True])
def test_backwards_that_give_no_parameter_a_gradient(find_unused: bool) -> None:
    run(restricted, 2, find_unused)


def adversaries(rank: int, world_size: int) -> None:
    """The discriminator is frozen while the generator learns."""

    def step(generator: Net, discriminator: nn.Module, inputs: Tensor, share: float) -> None:
        discriminator.requires_grad_(False)
        (discriminator(generator(inputs)).square().mean() * share).backward()
        discriminator.requires_grad_(True)
        ((discriminator(generator(inputs).detach()) - 1).square().mean() * share).backward()

    torch.manual_seed(0)
    references = [nn.Linear(8, 8), make_model()]
    models = copy.deepcopy(references)
    wrapped = [ucxring.DistributedDataParallel(model) for model in models]
    for number in range(3):
        for each in range(world_size):
            step(references[0], references[1], batch(number, each)[0], 1 / world_size)
        step(wrapped[0], wrapped[1], batch(number, rank)[0], 1.0)
        for model, reference in zip(models, references, strict=True):
            assert_gradients_match(model, reference, 1e-5)
            model.zero_grad()
            reference.zero_grad()


def test_a_frozen_discriminator() -> None:
    run(adversaries, 2)


def copies(rank: int, world_size: int) -> None:
    model = make_model()
    ddp = ucxring.DistributedDataParallel(model)
    file = io.BytesIO()
    torch.save(ddp, file)
    file.seek(0)
    averaged = AveragedModel(ddp)
    averaged.update_parameters(ddp)
    reference = make_model()
    loss_of(reference, *batch(0, 0)).backward()
    loss_of(reference, *batch(0, 1)).backward()
    for copied in (copy.deepcopy(ddp), torch.load(file, weights_only=False), averaged.module):
        loss_of(copied, *batch(0, rank)).backward()
        assert copied.module[0].weight.grad is not None
        torch.testing.assert_close(copied.module[0].weight.grad, reference[0].weight.grad / 2)
        assert copied.report() is not None
    assert model[0].weight.grad is None
    group = dist.new_group([0, 1])
    elsewhere = ucxring.DistributedDataParallel(make_model(), process_group=group)
    assert copy.deepcopy(elsewhere).process_group is group
    with pytest.raises(ValueError, match="save its module"):
        torch.save(elsewhere, io.BytesIO())


def test_copies() -> None:
    run(copies, 2)


def tensor_parallel(rank: int, world_size: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    grads = []
    for wrapper in WRAPPERS.values():
        model = make_model()
        parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        ddp = wrapper(model, device_mesh=mesh["data"])
        for step in range(2):
            loss_of(ddp, *batch(step, mesh["data"].get_local_rank())).backward()
        grads.append([parameter.grad for parameter in model.parameters()])
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_tensor_parallel_inside_data_parallel() -> None:
    run(tensor_parallel, 4)


def refused(rank: int, world_size: int) -> None:
    with pytest.raises(ValueError, match=r"weight has no shape yet"):
        ucxring.DistributedDataParallel(nn.LazyLinear(3))
    stepped = make_model()
    _apply_optimizer_in_backward(torch.optim.SGD, stepped.parameters(), {"lr": 0.1})
    with pytest.raises(ValueError, match=r"0.weight within backward"):
        ucxring.DistributedDataParallel(stepped)
    sparse = nn.Linear(4, 4)
    sparse.register_buffer("adjacency", torch.eye(4).to_sparse())
    with pytest.raises(ValueError, match="buffer adjacency is sparse"):
        ucxring.DistributedDataParallel(sparse)
    converted = ucxring.DistributedDataParallel(make_model())
    converted.double()
    with pytest.raises(RuntimeError, match="converted after wrapping"):
        converted(batch(0, rank)[0].double()).sum().backward()


def test_what_is_refused() -> None:
    run(refused, 2)


def curious_hooks(rank: int, world_size: int) -> None:
    """A hook and its callback read what the wrapper shows; the callback runs on whatever thread completes the work."""
    ddp = ucxring.DistributedDataParallel(make_model(), bucket_cap_mb=TINY_CAP_MB)
    seen: list[int] = []

    def look() -> None:
        seen.append(ddp.reducer.steps)
        assert ddp.reducer.bucket_bytes > 0
        assert ddp.reducer.buckets
        ddp.report()

    def hook(_state: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        def look_and_return(done: torch.futures.Future[list[Tensor]]) -> Tensor:
            look()
            return done.value()[0]

        look()
        work = dist.all_reduce(bucket.buffer(), op=dist.ReduceOp.AVG, async_op=True)
        return work.get_future().then(look_and_return)

    ddp.register_comm_hook(None, hook)
    for step in range(2):
        loss_of(ddp, *batch(step, rank)).backward()
    assert seen[0] == 0
    assert seen[-1] == 1


def test_hooks_may_read_figures() -> None:
    run(curious_hooks, 2)


def forgetful_hook(rank: int, world_size: int) -> None:
    ddp = ucxring.DistributedDataParallel(make_model())
    ddp.register_comm_hook(None, lambda _state, _bucket: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="not NoneType"):
        loss_of(ddp, *batch(0, rank)).backward()


def test_a_hook_without_a_future_is_an_error() -> None:
    run(forgetful_hook, 2)
