"""A model that can also do a step without computing: its gradients are there before backward begins."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor, nn


class ReadyMade(nn.Module):
    """Around a network. Called with None it returns a number whose backward hands over finished gradients.

    A wrapper around it sees the same parameters and the same order of gradients (that of the parameters, reversed) in
    both kinds of step, so that the second shows what a step's communication takes when there is nothing behind which
    to hide it.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor | None) -> Tensor:
        """What the network gives, or that number."""
        if inputs is not None:
            result: Tensor = self.network(inputs)
            return result
        carried = torch.zeros(())
        for parameter in self.network.parameters():
            if parameter.requires_grad:
                carried = _HandOver.apply(carried, parameter)
        return carried

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """For loops that expect a wrapper: there is nothing to leave out."""
        return contextlib.nullcontext()


class _HandOver(torch.autograd.Function):
    """The gradient is a copy of the parameter that forward makes; nothing else holds it, so it is not copied again."""

    @staticmethod
    def forward(ctx: Any, carried: Tensor, parameter: Tensor) -> Tensor:
        ctx.gradient = parameter.detach().clone()
        return carried.clone()

    @staticmethod
    def backward(ctx: Any, carried: Tensor) -> tuple[Tensor, Tensor]:
        gradient, ctx.gradient = ctx.gradient, None
        return carried, gradient
