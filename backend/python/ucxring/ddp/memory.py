"""How much memory a forward and a backward take."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Loss = Callable[[nn.Module, Any], Tensor]


class PeakMemory(TorchDispatchMode):
    """Counts the bytes of all tensors that operators make while it is on; views and what was there before count 0.

    Memory that an operator takes and returns within one call is not seen, nor what a compiled module makes inside.
    """

    def __init__(self) -> None:
        super().__init__()
        self.current = 0
        self.peak = 0
        self._known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operator and looks at its results."""
        for tensor in tree_leaves((args, kwargs or {})):
            if isinstance(tensor, Tensor) and tensor.layout == torch.strided:
                self._known.add(tensor.untyped_storage())
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.layout == torch.strided:
                self._look(tensor.untyped_storage())
        return result

    def _look(self, storage: torch.UntypedStorage) -> None:
        if storage in self._known:
            return
        self._known.add(storage)
        self.current += storage.nbytes()
        self.peak = max(self.peak, self.current)
        weakref.finalize(storage, self._gone, storage.nbytes())

    def _gone(self, count: int) -> None:
        self.current -= count


def peak_bytes(module: nn.Module, compute_loss: Loss, batch: Any) -> int:
    """Bytes that forward and backward of `batch` take at their peak, on top of what was there before.

    A parameter's gradient counts until it would have been added to the one that is kept. On CUDA devices the
    allocator's own figures are used, and running out of memory counts as more than any limit. Parameters, gradients,
    buffers and the state of random number generators are left as they were, and no hook of a parameter runs.
    """
    devices = sorted({each.device.index for each in module.parameters() if each.is_cuda})
    with torch.random.fork_rng(devices), torch.enable_grad(), stand_ins(module) as parameters:
        if devices:
            return _peak_on_cuda(lambda: _backward(compute_loss(module, batch), parameters), devices)
        with PeakMemory() as memory:
            _backward(compute_loss(module, batch), parameters)
        return int(memory.peak)


def _backward(loss: Tensor, parameters: list[nn.Parameter]) -> None:
    torch.autograd.backward(loss, inputs=parameters)


def _peak_on_cuda(train: Callable[[], None], devices: list[int]) -> int:
    for device in devices:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
    before = {device: int(torch.cuda.memory_allocated(device)) for device in devices}
    try:
        train()
    except torch.OutOfMemoryError:
        return sum(int(torch.cuda.get_device_properties(device).total_memory) for device in devices)
    return max(int(torch.cuda.max_memory_allocated(device)) - before[device] for device in devices)


@contextlib.contextmanager
def stand_ins(module: nn.Module) -> Iterator[list[nn.Parameter]]:
    """Lets a module use other parameters, of the same memory, and copies of its buffers; gives those with gradients.

    Their gradients are dropped as soon as they are there.
    """
    made: dict[int, Tensor] = {}  # by identity: shared parameters stay shared
    saved: list[tuple[nn.Module, str, Tensor]] = []
    for owner in module.modules():
        for name, tensor in [*owner._parameters.items(), *owner._buffers.items()]:
            if tensor is not None:
                saved.append((owner, name, tensor))
                made[id(tensor)] = made[id(tensor)] if id(tensor) in made else _stand_in(tensor)
    try:
        for owner, name, tensor in saved:
            setattr(owner, name, made[id(tensor)])  # not into the dict: RNNs keep lists of their parameters
        yield [each for each in made.values() if isinstance(each, nn.Parameter) and each.requires_grad]
    finally:
        for owner, name, tensor in saved:
            setattr(owner, name, tensor)


def _stand_in(tensor: Tensor) -> Tensor:
    if not isinstance(tensor, nn.Parameter):
        return tensor.detach().clone()
    parameter = nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
    if parameter.requires_grad:
        parameter.register_post_accumulate_grad_hook(_drop)
    return parameter


def _drop(parameter: Tensor) -> None:
    parameter.grad = None
