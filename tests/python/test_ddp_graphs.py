"""Which parameters take part: unused and shared ones, checkpoints, several forwards, errors in backward."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from ddp_training import (
    TINY_CAP_MB,
    Branches,
    assert_gradients_match,
    batch,
    bf16_hook,
    loss_of,
    make_model,
    train,
    whole_batch,
)
from harness import Ranks, run
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import ucxring


def unused(rank: int, world_size: int, as_view: bool) -> None:
    torch.manual_seed(0)
    model = Branches()
    reference = copy.deepcopy(model)
    ddp = ucxring.DistributedDataParallel(
        model, find_unused_parameters=True, bucket_cap_mb=1e-5, gradient_as_bucket_view=as_view
    )
    for step in range(4):
        for micro in range(2):
            for each in range(world_size):
                inputs, targets = batch(2 * step + micro, each)
                output = reference(inputs, (each + step) % 2)
                (nn.functional.mse_loss(output, targets) / world_size).backward()
            inputs, targets = batch(2 * step + micro, rank)
            if micro == 0:
                with ddp.no_sync():
                    nn.functional.mse_loss(ddp(inputs, (rank + step) % 2), targets).backward()
            else:
                nn.functional.mse_loss(ddp(inputs, (rank + step) % 2), targets).backward()
        assert_gradients_match(model, reference)
        assert model.never.weight.grad is None
        model.zero_grad()
        reference.zero_grad()


@pytest.mark.parametrize("as_view", [False, True])
def test_parameters_unused_on_some_ranks(as_view: bool) -> None:
    run(unused, 2, as_view)


def output_left_out(rank: int, world_size: int) -> None:
    """With find_unused_parameters an output need not go into the loss."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = nn.ModuleList([nn.Linear(8, 4), nn.Linear(8, 4)])

        def forward(self, inputs: Tensor) -> dict[str, Tensor]:
            return {"first": self.heads[0](inputs), "second": self.heads[1](inputs)}

    ddp = ucxring.DistributedDataParallel(Two(), find_unused_parameters=True)
    for _ in range(2):
        ddp(batch(0, rank)[0])["first"].sum().backward()
        assert ddp.module.heads[1].weight.grad is None
        ddp.zero_grad()


def test_an_output_left_out_of_the_loss() -> None:
    run(output_left_out, 2)


def incomplete(rank: int, world_size: int, everywhere: bool, hook: bool = False) -> str:
    ddp = ucxring.DistributedDataParallel(Branches(), bucket_cap_mb=1e-5)
    if hook:
        ddp.register_comm_hook(None, bf16_hook)
    weights = [parameter.detach().clone() for parameter in ddp.parameters()]
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1.0)
    whole = sum(parameter.sum() * 0 for parameter in ddp.module.parameters())
    output = ddp(batch(0, rank)[0], 0).sum()
    loss = output if everywhere or rank == 1 else output + whole

    def step() -> None:
        loss.backward()
        optimizer.step()

    with pytest.raises(RuntimeError, match="the step must not be taken") as error:
        step()
    for parameter, weight in zip(ddp.parameters(), weights, strict=True):
        assert torch.equal(parameter, weight)
    return str(error.value)


def test_a_missing_gradient_is_an_error_before_the_step() -> None:
    for message in run(incomplete, 2, True):
        assert "branches.1.weight" in message
        assert "find_unused_parameters=True" in message


@pytest.mark.parametrize("hook", [False, True])
def test_a_gradient_missing_on_one_rank_is_an_error_on_all(hook: bool) -> None:
    # The loss of rank 0 leads to every parameter, but not through the wrapper's forward: that is enough.
    first, second = run(incomplete, 2, False, hook)
    assert "1 other rank(s)" in first
    assert "never.weight" in second


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.output = nn.Linear(4, 10, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.embedding(tokens))


class Reused(nn.Module):
    """One layer three times, plain or under a checkpoint."""

    def __init__(self, reentrant: bool | None = None) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Linear(8, 8)
        self.layer = nn.Linear(8, 8)
        self.reentrant = reentrant

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs)
        for _ in range(3):
            if self.reentrant is None:
                hidden = torch.tanh(self.layer(hidden))
            else:
                hidden = torch.tanh(checkpoint(self.layer, hidden, use_reentrant=self.reentrant))
        return hidden[:, :4]


def compare(rank: int, world_size: int, model: nn.Module, make_batch: Callable[[int, int], Any], **kwargs: Any) -> None:
    """Gradients of three steps against the mean of what single processes get."""
    reference = copy.deepcopy(model)
    ddp = ucxring.DistributedDataParallel(model, bucket_cap_mb=TINY_CAP_MB, **kwargs)
    for step in range(3):
        for each in range(world_size):
            (reference(make_batch(step, each)).square().mean() / world_size).backward()
        ddp(make_batch(step, rank)).square().mean().backward()
        assert_gradients_match(model, reference)
        model.zero_grad(set_to_none=step == 1)
        reference.zero_grad(set_to_none=step == 1)


def shared_parameters(rank: int, world_size: int) -> None:
    def tokens(step: int, each: int) -> Tensor:
        return torch.randint(10, (5,), generator=torch.Generator().manual_seed(10 * step + each))

    def inputs(step: int, each: int) -> Tensor:
        return batch(step, each)[0].requires_grad_()

    torch.manual_seed(2)
    for static in (False, True):
        compare(rank, world_size, Tied(), tokens, static_graph=static)
        compare(rank, world_size, Reused(), inputs, static_graph=static)
        compare(rank, world_size, Reused(reentrant=False), inputs, static_graph=static)
    compare(rank, world_size, Reused(reentrant=True), inputs, static_graph=True)
    with pytest.raises(RuntimeError, match=r"layer\.\w+ came again"):
        compare(rank, world_size, Reused(reentrant=True), inputs)


def test_shared_and_reused_parameters_and_checkpoints() -> None:
    run(shared_parameters, 2)


def checkpoint_around(rank: int, world_size: int) -> None:
    """The wrapper itself under a checkpoint: its forward runs again inside backward."""
    for reentrant in (False, True):
        reference = make_model()
        model = copy.deepcopy(reference)
        ddp = ucxring.DistributedDataParallel(model)
        for step in range(3):
            loss_of(reference, *whole_batch(step, world_size)).backward()
            inputs, targets = batch(step, rank)
            output = checkpoint(ddp, inputs.requires_grad_(), use_reentrant=reentrant)
            nn.functional.mse_loss(output, targets).backward()
            assert_gradients_match(model, reference)
            model.zero_grad()
            reference.zero_grad()


def test_a_checkpoint_around_the_wrapper() -> None:
    run(checkpoint_around, 2)


def static_graph_without_synchronisation(rank: int, world_size: int) -> None:
    train(rank, world_size, steps=3, micro=4, static_graph=True)


def test_static_graph_with_no_sync() -> None:
    run(static_graph_without_synchronisation, 2)


def several_forwards(rank: int, world_size: int) -> None:
    reference = make_model()
    model = copy.deepcopy(reference)
    ddp = ucxring.DistributedDataParallel(model)
    for step in range(3):
        (
            loss_of(reference, *whole_batch(step, world_size)) + loss_of(reference, *whole_batch(9, world_size))
        ).backward()
        (loss_of(ddp, *batch(step, rank)) + loss_of(ddp, *batch(9, rank))).backward()
        assert_gradients_match(model, reference)
        model.zero_grad()
        reference.zero_grad()
    first, second = loss_of(ddp, *batch(0, rank)), loss_of(ddp, *batch(1, rank))
    first.backward()
    with pytest.raises(ValueError, match="averaged already"):
        second.backward()
    model.zero_grad()
    train(rank, world_size)


def test_several_forwards_before_one_backward() -> None:
    run(several_forwards, 2)


def interrupted(rank: int, world_size: int) -> None:
    """An exception in backward, on all ranks, leaves a wrapper that works."""

    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, value: Tensor) -> Tensor:
            return value.clone()

        @staticmethod
        def backward(_ctx: Any, *_gradients: Any) -> Any:
            raise ArithmeticError("no gradient today")

    model = make_model()
    reference = copy.deepcopy(model)
    ddp = ucxring.DistributedDataParallel(model, bucket_cap_mb=1e-5)
    for step in range(3):
        handle = model[1].register_forward_hook(lambda _module, _inputs, output: Broken.apply(output))
        with pytest.raises(ArithmeticError):
            loss_of(ddp, *batch(step, rank)).backward()
        handle.remove()
        model.zero_grad()
        loss_of(ddp, *batch(step, rank)).backward()
        loss_of(reference, *whole_batch(step, world_size)).backward()
        assert_gradients_match(model, reference)
        model.zero_grad()
        reference.zero_grad()


def test_an_exception_in_backward_leaves_a_usable_wrapper() -> None:
    run(interrupted, 2)


def forgets_backward(rank: int, world_size: int) -> None:
    ddp = ucxring.DistributedDataParallel(make_model())
    output = loss_of(ddp, *batch(0, rank))
    if rank == 0:
        output.backward()


def test_a_rank_that_never_calls_backward_ends_in_an_error() -> None:
    outcomes = Ranks(forgets_backward, 2, timeout_s=3.0).outcomes()
    assert outcomes[0].error is not None
    assert "rank 1" in outcomes[0].error[1]
