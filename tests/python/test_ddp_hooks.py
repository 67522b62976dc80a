"""The comm hooks of ucxring.ddp.hooks under DistributedDataParallel, over ucxring and over Gloo."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ddp_training import WRAPPERS
from harness import run
from torch import nn

from ucxring.ddp.hooks import (
    Int8State,
    PowerSGDState,
    TopKState,
    bf16_compress,
    fp16_compress,
    int8_compress,
    power_sgd_compress,
    top_k_compress,
)

BACKENDS = ["ucxring", "gloo"]


@dataclass(frozen=True)
class Hook:
    """A hook, how to make its state, and how far its averages may be from the exact ones, relative to their norm."""

    function: Callable[..., Any]
    make: Callable[[], Any]
    tolerance: float

    def register(self, model: nn.Module) -> Any:
        state = self.make()
        model.register_comm_hook(state, self.function)
        return state


def nothing() -> None:
    return None


HOOKS = {
    "fp16": Hook(fp16_compress, nothing, 1e-3),
    "bf16": Hook(bf16_compress, nothing, 1e-2),
    "int8": Hook(int8_compress, lambda: Int8State(block_size=32), 2e-2),
    "top_k": Hook(top_k_compress, lambda: TopKState(density=0.5), 0.5),
    "top_k of all": Hook(top_k_compress, lambda: TopKState(density=1.0), 1e-6),
    "PowerSGD": Hook(power_sgd_compress, lambda: PowerSGDState(rank=2, start_iteration=0, min_compression=1), 0.8),
    "PowerSGD of full rank": Hook(
        power_sgd_compress, lambda: PowerSGDState(rank=16, start_iteration=1, min_compression=0), 1e-5
    ),
}
WITH_FEEDBACK = ["int8", "top_k", "PowerSGD"]


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))


def wrap(model: nn.Module, wrapper: str, **kwargs: Any) -> nn.Module:
    return WRAPPERS[wrapper](model, bucket_cap_mb=0.001, **kwargs)


def backward(model: nn.Module, step: int, rank: int) -> None:
    generator = torch.Generator().manual_seed(100 * step + rank)
    inputs, targets = torch.randn(4, 8, generator=generator), torch.randn(4, 4, generator=generator)
    model.zero_grad()
    nn.functional.mse_loss(model(inputs), targets).backward()


def flat_gradients(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def exact_average(model: nn.Module, step: int, rank: int) -> torch.Tensor:
    """The average of what all ranks' own gradients are."""
    alone = copy.deepcopy(model)
    backward(alone, step, rank)
    average = flat_gradients(alone).double()
    dist.all_reduce(average)
    return average / dist.get_world_size()


def assert_same_on_all_ranks(tensor: torch.Tensor) -> None:
    everyone = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, tensor)
    assert all(torch.equal(each.view(torch.int32), tensor.view(torch.int32)) for each in everyone)


def train(rank: int, hook: Hook, wrapper: str, **kwargs: Any) -> None:
    """Five steps: averages near the exact ones, replicas bit-identical."""
    module = make_model()
    model = wrap(module, wrapper, **kwargs)
    hook.register(model)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for step in range(5):
        expected = exact_average(module, step, rank)
        backward(model, step, rank)
        error = (flat_gradients(module) - expected).norm() / expected.norm()
        # From the second step on, feedback adds what the first one left out; so bound its error alone.
        assert error <= hook.tolerance * (1 if step == 0 else 2), (step, error)
        assert step > 0 or hook.tolerance < 1e-4 or error > 1e-6, "nothing was compressed"
        optimizer.step()
        assert_same_on_all_ranks(torch.cat([parameter.detach().flatten() for parameter in module.parameters()]))


def training(rank: int, world_size: int, wrapper: str) -> None:
    for i, hook in enumerate(HOOKS.values()):
        train(rank, hook, wrapper, gradient_as_bucket_view=(i + world_size) % 2 == 0)


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize(("backend", "world_size"), [("ucxring", 2), ("ucxring", 3), ("gloo", 2)])
def test_training(backend: str, world_size: int, wrapper: str) -> None:
    run(training, world_size, wrapper, backend=backend)


class Mixed(nn.Module):
    """Parameters of many types, in one expression."""

    def __init__(self) -> None:
        super().__init__()
        types = [torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.float16]
        for i, dtype in enumerate(types):
            self.register_parameter(f"p{i}", nn.Parameter(torch.ones(40, 40, dtype=dtype)))

    def forward(self, factor: float) -> torch.Tensor:
        return sum((parameter * factor).real.double().sum() for parameter in self.parameters())


def mixed_types(rank: int, world_size: int, wrapper: str) -> None:
    """The gradients are constant, so each hook but top-k gives the exact average but for rounding."""
    for name, hook in HOOKS.items():
        if name == "top_k":
            continue
        module = Mixed()
        model = wrap(module, wrapper)
        hook.register(model)
        for _ in range(3):
            model.zero_grad()
            model(float(rank + 1)).backward()
            for parameter in module.parameters():
                expected = torch.full_like(parameter, (world_size + 1) / 2)
                torch.testing.assert_close(parameter.grad, expected, rtol=1e-2, atol=0, msg=f"{name} {parameter.dtype}")


@contextmanager
def counted_bytes(ranks: int) -> Iterator[dict[str, list[float]]]:
    """For each collective the bytes that a rank sends with the algorithms that send least, one entry per call."""
    factors = {"all_reduce": 2 * (ranks - 1) / ranks, "all_to_all_single": (ranks - 1) / ranks, "all_gather": ranks - 1}
    inputs = {"all_reduce": 0, "all_to_all_single": 1, "all_gather": 1}
    counts: dict[str, list[float]] = {name: [] for name in factors}
    originals = {name: getattr(dist, name) for name in factors}

    def counting(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            counts[name].append(args[inputs[name]].nbytes * factors[name])
            return originals[name](*args, **kwargs)

        return call

    for name in factors:
        setattr(dist, name, counting(name))
    try:
        yield counts
    finally:
        for name, original in originals.items():
            setattr(dist, name, original)


def wire_bytes(rank: int, world_size: int, wrapper: str) -> None:
    """What the documentation says, on a bucket of two million numbers: bytes beside float32, calls per bucket."""
    rows, columns, width = 2048, 1024, 4
    for function, state, calls, share in (
        (fp16_compress, None, {"all_reduce": 1}, 0.5),
        (bf16_compress, None, {"all_reduce": 1}, 0.5),
        (int8_compress, Int8State(), {"all_to_all_single": 1, "all_gather": 1}, (1 + 4 / 512) / 4),
        (top_k_compress, TopKState(density=0.01), {"all_gather": 1}, 0.01 * world_size),
        (
            power_sgd_compress,
            PowerSGDState(rank=width, start_iteration=0),
            {"all_reduce": 2},
            (width * (rows + columns)) / (rows * columns),
        ),
    ):
        module = nn.Linear(columns, rows, bias=False)
        model = WRAPPERS[wrapper](module)
        model.register_comm_hook(state, function)
        with counted_bytes(world_size) as counts:
            model(torch.ones(1, columns)).sum().backward()
        assert {name: len(sent) for name, sent in counts.items() if sent} == calls
        uncompressed = module.weight.nbytes * 2 * (world_size - 1) / world_size
        assert sum(map(sum, counts.values())) <= 1.001 * share * uncompressed, function.__name__


class Vector(nn.Module):
    """A matrix whose gradient is its distance to a rank's target: a quadratic problem, solved by the mean target."""

    def __init__(self) -> None:
        super().__init__()
        self.at = nn.Parameter(torch.zeros(16, 64))

    def forward(self, target: torch.Tensor) -> torch.Tensor:
        return 0.5 * (self.at - target).square().sum()


def distance_after_descent(rank: int, world_size: int, wrapper: str, function: Callable[..., Any], state: Any) -> float:
    """How far from the solution 300 steps of shrinking size end, relative to where they began."""
    targets = [torch.randn(16, 64, generator=torch.Generator().manual_seed(each)) for each in range(world_size)]
    solution = torch.stack(targets).mean(0)
    module = Vector()
    model = WRAPPERS[wrapper](module)
    model.register_comm_hook(state, function)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    for step in range(300):
        optimizer.param_groups[0]["lr"] = 0.2 / (1 + step / 20)
        optimizer.zero_grad()
        model(targets[rank]).backward()
        optimizer.step()
    return ((module.at.detach() - solution).norm() / solution.norm()).item()


def error_feedback(rank: int, world_size: int, wrapper: str) -> None:
    """The optimum of the sum is not that of any rank, so what compression drops or rounds away is missed for good."""
    make: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (int8_compress, lambda feedback: Int8State(error_feedback=feedback)),
        (top_k_compress, lambda feedback: TopKState(density=0.1, error_feedback=feedback)),
        (power_sgd_compress, lambda feedback: PowerSGDState(rank=1, start_iteration=0, error_feedback=feedback)),
    ]
    for function, state in make:
        near = distance_after_descent(rank, world_size, wrapper, function, state(True))
        far = distance_after_descent(rank, world_size, wrapper, function, state(False))
        limit = 1e-3 if function is int8_compress else 0.1
        assert near < limit, (function.__name__, near)
        assert near < 0.5 * far, (function.__name__, near, far)


def not_finite(rank: int, world_size: int, wrapper: str) -> None:
    """One bad number on one rank makes the step bad on all; the errors kept for the next step are not touched."""
    for name, hook in HOOKS.items():
        for bad in (math.nan, math.inf, -math.inf):
            module = make_model()
            model = wrap(module, wrapper)
            state = hook.register(model)
            for step in range(3):
                backward(model, step, rank)
            before = errors_of(state)
            poison = module[2].weight.register_hook(lambda gradient, bad=bad: with_one(gradient, bad, rank == 1))
            backward(model, 3, rank)
            poison.remove()
            assert not module[2].weight.grad.isfinite().all(), (name, bad)
            assert_same_on_all_ranks(module[2].weight.grad.isfinite().float())
            affected = [not torch.equal(a, b) for a, b in zip(before, errors_of(state), strict=True)]
            assert not all(affected) or not before, name
            expected = exact_average(module, 4, rank)
            backward(model, 4, rank)
            assert all(error.isfinite().all() for error in errors_of(state)), (name, bad)
            error = (flat_gradients(module) - expected).norm() / expected.norm()
            assert error <= 4 * hook.tolerance, (name, bad, error)


def with_one(gradient: torch.Tensor, bad: float, wanted: bool) -> torch.Tensor:
    gradient = gradient.clone()
    if wanted:
        gradient[1, 2] = bad
    return gradient


def errors_of(state: Any) -> list[torch.Tensor]:
    if isinstance(state, Int8State):
        exchanges = [exchange for _, exchange in state.exchanges._entries.values()]
        return [error.clone() for each in exchanges for error in (each.error, each.part_error)]
    return [error.clone() for _, error in state.errors._entries.values()] if state is not None else []


def grad_scaler(rank: int, world_size: int, wrapper: str) -> None:
    """GradScaler skips the step, and scales less, on all ranks alike."""
    for name, hook in HOOKS.items():
        module = make_model()
        model = wrap(module, wrapper)
        hook.register(model)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=100)
        for step in range(4):
            model.zero_grad()
            before = [parameter.detach().clone() for parameter in module.parameters()]
            factor = math.inf if step == 2 and rank == 1 else 1.0
            scaler.scale(model(torch.ones(2, 8)).square().mean() * factor).backward()
            scaler.step(optimizer)
            scaler.update()
            same = all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
            assert same == (step == 2), (name, step)
        assert scaler.get_scale() == 8.0, name


def out_of_step(rank: int, world_size: int, wrapper: str) -> None:
    """Ranks reach their buckets at different times, so first and second collectives interleave differently."""
    for name in ("int8", "PowerSGD of full rank"):
        hook = HOOKS[name]

        def late(state, bucket):  # torch looks at annotations, and those of this file are strings
            time.sleep(0.02 if (bucket.index() + rank) % 2 else 0)
            return hook.function(state, bucket)  # noqa: B023

        module = make_model()
        model = wrap(module, wrapper)
        model.register_comm_hook(hook.make(), late)
        for step in range(4):
            expected = exact_average(module, step, rank)
            backward(model, step, rank)
            assert (flat_gradients(module) - expected).norm() <= 2 * hook.tolerance * expected.norm()


def wrong_use(rank: int, world_size: int, wrapper: str) -> None:
    for function in (int8_compress, top_k_compress, power_sgd_compress):
        model = wrap(make_model(), wrapper)
        model.register_comm_hook(None, function)
        with pytest.raises(Exception, match="needs its state"):
            backward(model, 0, rank)
    model = WRAPPERS[wrapper](nn.Embedding(10, 3, sparse=True))
    model.register_comm_hook(None, bf16_compress)
    with pytest.raises(Exception, match="sparse"):
        model(torch.tensor([1, 2])).sum().backward()
    for make in (lambda: Int8State(block_size=6), lambda: TopKState(density=0), lambda: PowerSGDState(rank=0)):
        with pytest.raises(ValueError, match="must be"):
            make()


def behaviour(rank: int, world_size: int, wrapper: str) -> None:
    for each in (mixed_types, wire_bytes, error_feedback, not_finite, grad_scaler, out_of_step, wrong_use):
        each(rank, world_size, wrapper)


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_behaviour(backend: str, wrapper: str) -> None:
    run(behaviour, 2, wrapper, backend=backend)
