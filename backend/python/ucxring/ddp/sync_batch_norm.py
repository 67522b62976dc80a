"""BatchNorm over the batches of all ranks, on the CPU as on CUDA."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy


class SyncBatchNorm(_BatchNorm):
    """BatchNorm whose mean and variance in training are those of the whole batch, over all ranks of a group.

    Takes and gives tensors (samples, channels, ...), like `torch.nn.SyncBatchNorm`, which refuses the CPU. One
    collective in forward and one in backward, each of some 16 bytes per channel. Ranks may have batches of different
    sizes, or none at all (0, channels, ...), but all must call forward and backward. In evaluation, without a process
    group, or with one rank it is an ordinary BatchNorm.

    Gradients of weight and bias are those of this rank's samples: `DistributedDataParallel` averages them like all
    others.

    Ioffe and Szegedy, Batch Normalization, ICML 2015. The ranks' statistics are put together as in Chan, Golub and
    LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979.

    Args:
        num_features: channels.
        eps: added to the variance.
        momentum: weight of the newest batch in the running statistics; None averages over all batches alike.
        affine: whether to learn a weight and a bias per channel.
        track_running_stats: whether to keep running statistics for evaluation.
        process_group: whose ranks to go over, None for the default group. With a group of its own, these small messages
            do not wait behind the buckets of gradients.
        device: of parameters and buffers.
        dtype: of parameters and buffers.

    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: dist.ProcessGroup | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)
        self.process_group = process_group

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalises `input`, (samples, channels, ...).

        Raises:
            ValueError: for an input of the wrong shape, and when all ranks together have one value per channel only.

        """
        self._check_input_dim(input)
        group = self._group()
        if group is None:
            return super().forward(input)
        with torch.no_grad():
            mean, variance, count = _statistics(_working(input), group)
            if count.is_cpu and count.item() == 1:  # on CUDA a look would make the CPU wait
                raise ValueError(
                    f"expected more than 1 value per channel when training, got {tuple(input.shape)} in all"
                )
            if self.track_running_stats:
                self._track(mean, variance, count)
            inverse = (variance + self.eps).rsqrt()
        normalised: torch.Tensor = _Normalise.apply(input, self.weight, self.bias, mean, inverse, count, group)
        return normalised

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2 or input.size(1) != self.num_features:
            raise ValueError(f"expected (samples, {self.num_features}, ...), got {tuple(input.shape)}")

    def _group(self) -> dist.ProcessGroup | None:
        """The group to go over now, or None."""
        if not self.training or not dist.is_available() or not dist.is_initialized():
            return None
        group = dist.group.WORLD if self.process_group is None else self.process_group
        return group if group.size() > 1 else None

    def _track(self, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
        """Moves the running statistics towards those of this batch, unless it was empty on all ranks."""
        self.num_batches_tracked.add_(count > 0)
        momentum = 1.0 / max(1, int(self.num_batches_tracked)) if self.momentum is None else self.momentum
        weight = momentum * count.clamp(max=1)
        unbiased = variance * (count / (count - 1).clamp(min=1))
        for running, new in ((self.running_mean, mean), (self.running_var, unbiased)):
            running.copy_(torch.lerp(running.to(new.dtype), new, weight))


def convert_sync_batchnorm(module: nn.Module, process_group: dist.ProcessGroup | None = None) -> nn.Module:
    """Replaces every BatchNorm in `module`, torch's `SyncBatchNorm` too, by a `SyncBatchNorm` over `process_group`.

    Returns `module`, changed in place, or the new layer when `module` itself is a BatchNorm. A new layer has the same
    parameters and buffers (not copies), training flag and qconfig; a layer used in two places stays one layer.

    Raises:
        ValueError: for a lazy layer that has not seen an input yet.

    """
    return _convert(module, process_group, {})


def _convert(module: nn.Module, group: dist.ProcessGroup | None, done: dict[nn.Module, nn.Module]) -> nn.Module:
    if module in done:
        return done[module]
    done[module] = module
    if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
        done[module] = _converted(module, group)
    for name, child in done[module]._modules.items():
        if child is not None:
            done[module]._modules[name] = _convert(child, group, done)
    return done[module]


def _converted(layer: _BatchNorm, group: dist.ProcessGroup | None) -> SyncBatchNorm:
    if any(is_lazy(parameter) for parameter in layer.parameters()):
        raise ValueError("a lazy BatchNorm has no channels to convert yet: run one batch through the model first")
    new = SyncBatchNorm(
        layer.num_features,
        layer.eps,
        layer.momentum,
        affine=False,
        track_running_stats=layer.track_running_stats,
        process_group=group,
    )
    new.affine = layer.affine
    new.weight, new.bias = layer.weight, layer.bias
    new.running_mean, new.running_var = layer.running_mean, layer.running_var
    new.num_batches_tracked = layer.num_batches_tracked
    new.train(layer.training)
    if hasattr(layer, "qconfig"):
        new.qconfig = layer.qconfig
    return new


def _statistics(values: torch.Tensor, group: dist.ProcessGroup) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean and biased variance of each channel over all ranks, and how many values a channel has, all in float64.

    Float64, because the squared differences of the ranks' means may be far larger than the variance, and because it
    counts exactly. It costs nothing at this size.
    """
    channels = values.size(1)
    mine = torch.zeros(2 * channels + 1, dtype=torch.float64, device=values.device)
    if values.numel() > 0:
        mean = values.mean(_all_but_channels(values))
        variance = (values - _per_channel(mean, values)).square_().mean(_all_but_channels(values))
        torch.cat([mean, variance, mean.new_tensor([values.numel() // channels])], out=mine)
    of_ranks = mine.new_empty(group.size(), mine.numel())
    dist.all_gather(list(of_ranks), mine, group=group)
    means, variances, counts = of_ranks.split([channels, channels, 1], dim=1)
    total = counts.sum()
    shares = counts / total.clamp(min=1)
    mean = (means * shares).sum(0)
    variance = ((variances + (means - mean).square()) * shares).sum(0)
    return mean, variance, total


class _Normalise(torch.autograd.Function):
    """(inputs − mean) · inverse · weight + bias, where mean and inverse depend on the inputs of all ranks."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        mean: torch.Tensor,
        inverse: torch.Tensor,
        count: torch.Tensor,
        group: dist.ProcessGroup,
    ) -> torch.Tensor:
        ctx.group = group
        ctx.save_for_backward(inputs, weight, bias, mean, inverse, count)
        values = _working(inputs)
        centred = values - _per_channel(mean, values)
        scale = inverse if weight is None else inverse * weight
        offset = torch.zeros_like(mean) if bias is None else bias
        result = torch.addcmul(_per_channel(offset, values), centred, _per_channel(scale, values))
        return result.to(inputs.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inputs, weight, bias, mean, inverse, count = ctx.saved_tensors
        grads, values = _working(grad_outputs), _working(inputs)
        centred = values - _per_channel(mean, values)
        others = _all_but_channels(values)
        sums = torch.stack([grads.sum(others).double(), (grads * centred).sum(others) * inverse])
        bias_grad = sums[0].to(bias.dtype) if ctx.needs_input_grad[2] else None
        weight_grad = sums[1].to(weight.dtype) if ctx.needs_input_grad[1] else None
        input_grad = None
        if ctx.needs_input_grad[0]:
            totals = sums.clone()
            dist.all_reduce(totals, group=ctx.group)
            bias_mean, weight_mean = totals / count.clamp(min=1)
            scale = inverse if weight is None else inverse * weight
            offset = _per_channel(-bias_mean * scale, values)
            input_grad = torch.addcmul(offset, grads, _per_channel(scale, values))
            input_grad.addcmul_(centred, _per_channel(-weight_mean * inverse * scale, values))
            input_grad = input_grad.to(inputs.dtype)
        return input_grad, weight_grad, bias_grad, None, None, None, None


def _working(inputs: torch.Tensor) -> torch.Tensor:
    """`inputs` in the type to compute in: float32, or float64 for float64."""
    return inputs.to(torch.promote_types(inputs.dtype, torch.float32))


def _all_but_channels(inputs: torch.Tensor) -> list[int]:
    return [dimension for dimension in range(inputs.dim()) if dimension != 1]


def _per_channel(values: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """`values`, one per channel, in the type of `inputs` and a shape that broadcasts over it."""
    return values.to(inputs.dtype).view(1, -1, *[1] * (inputs.dim() - 2))
