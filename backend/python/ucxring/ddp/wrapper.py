"""The reference DistributedDataParallel."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.distributed.device_mesh import DeviceMesh

from ucxring import _C
from ucxring.ddp.join import Attendance, DdpJoinHook, take_attendance
from ucxring.ddp.micro_batches import MicroBatch, accumulate
from ucxring.ddp.nested import map_tensors, sample_count, tensors
from ucxring.ddp.suitability import check_buffers, check_parameters, expecting_future, localise_tensor_parallel
from ucxring.ddp.watch import Report, Watch
from ucxring.ddp.watch.at_exit import report_at_exit

_FIRST_BUCKET_BYTES = 1 << 20
_DEFAULT_BUCKET_CAP_MB = 25.0

_TORCH_HOOKS_WITHOUT_CHAIN = (
    default_hooks.allreduce_hook,
    default_hooks.fp16_compress_hook,
    default_hooks.bf16_compress_hook,
)

# What a copy gets anew.
_OF_ONE_PROCESS = ("process_group", "reducer", "watch")

CommHook = Callable[[Any, dist.GradBucket], torch.futures.Future[Tensor]]


class DistributedDataParallel(nn.Module, Joinable):
    """Trains one module on all ranks of a group: after backward every gradient is the mean over the ranks.

    Takes the arguments of `torch.nn.parallel.DistributedDataParallel` and does what it does, over any backend, with
    these differences: `gradient_as_bucket_view` is true by default; a parameter without a gradient is an error at the
    end of that backward, on all ranks; buffers are broadcast only before forwards that will average; and a second
    backward through a forward whose gradients have been averaged is an error. docs/ddp.md explains how it works.

    Args:
        module: its parameters and buffers must be the same on all ranks in number, names, shapes and dtypes.
        device_ids: at most one device, to which inputs are moved; None leaves inputs where they are.
        output_device: only the device of `device_ids`, as in torch.
        dim: not used, as in torch with one device.
        broadcast_buffers: all ranks get rank 0's buffers before each forward that averages.
        init_sync: compare the modules of all ranks and give all of them rank 0's parameters and buffers.
        process_group: the default group when None.
        bucket_cap_mb: gradients are reduced together up to so many MiB (25 when None).
        find_unused_parameters: parameters may take no part in a forward, on some or all ranks.
        check_reduction: not used, as in torch.
        gradient_as_bucket_view: gradients are views into the buckets, which saves memory and a copy; with ucxring the
            ranks of one host then reduce them in place.
        static_graph: every step runs the same graph: unused parameters and reentrant checkpoints are then allowed
            without looking for them in each step.
        device_mesh: a one-dimensional mesh instead of `process_group`.
        average: "ranks" gives every rank the same weight, "samples" as many as its samples: the size of the first
            tensor that forward gets, along dimension 0, added up over micro-batches (those in `no_sync` whose
            backward has come, and the forward that averages).

    Raises:
        ValueError: the modules differ between ranks (names the parameter, on every rank), or an argument is wrong.

    Not thread-safe. Construction, synchronised forwards and backwards are collective.

    """

    def __init__(
        self,
        module: nn.Module,
        device_ids: list[int | torch.device] | None = None,
        output_device: int | torch.device | None = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: dist.ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = True,
        static_graph: bool = False,
        *,
        device_mesh: DeviceMesh | None = None,
        average: Literal["ranks", "samples"] = "ranks",
    ) -> None:
        super().__init__()
        Joinable.__init__(self)
        del output_device, dim, check_reduction
        if average not in ("ranks", "samples"):
            raise ValueError(f"average is 'ranks' or 'samples', not {average!r}")
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(
                f"device_ids names {len(device_ids)} devices; one process drives one: start one per device"
            )
        if process_group is not None and device_mesh is not None:
            raise ValueError("pass process_group or device_mesh, not both")
        localise_tensor_parallel(module, device_mesh)
        self.module = module
        self.process_group = _choose_group(process_group, device_mesh)
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.average = average
        self.require_backward_grad_sync = True
        self._input_device = torch.device(device_ids[0]) if device_ids else None
        self._divide_by_initial_world_size = True
        self._ignored: set[str] = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._bucket_cap_mb = _DEFAULT_BUCKET_CAP_MB if bucket_cap_mb is None else bucket_cap_mb
        parameters = self._parameters_by_name()
        check_parameters(parameters.items())
        if init_sync or broadcast_buffers:
            check_buffers(self._named_buffers_to_broadcast())
        self.device = next(iter(parameters.values())).device if parameters else torch.device("cpu")
        if init_sync:
            _C.check_same_structure(self.process_group, list(parameters.values()), list(parameters))
            self.broadcast_model(0)
        self._reduce_and_watch()
        if _C.Options().ddp_report and dist.get_rank(self.process_group) == 0:
            report_at_exit(self)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's forward; the backward of what it returns averages gradients, unless in `no_sync`."""
        if self._input_device is not None:
            args, kwargs = map_tensors((args, kwargs), lambda tensor: tensor.to(self._input_device))
        if not torch.is_grad_enabled():
            return self.module(*args, **kwargs)
        synchronise = self.require_backward_grad_sync
        samples = _sample_count(args, kwargs) if self.average == "samples" else 0
        self._before_forward(synchronise, samples, args, kwargs)
        outputs = self.module(*args, **kwargs)
        self.reducer.end_forward(list(tensors(outputs)), synchronise, samples)
        return outputs

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is not dist.group.WORLD:
            raise ValueError("a wrapper over another group than the default one cannot be pickled: save its module")
        return self._state_to_copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = _choose_group(None, None)
        self._reduce_and_watch()

    def __deepcopy__(self, memo: dict[int, Any]) -> DistributedDataParallel:
        copied = self.__class__.__new__(self.__class__)
        memo[id(self)] = copied
        nn.Module.__setstate__(copied, copy.deepcopy(self._state_to_copy(), memo))
        copied.process_group = self.process_group
        copied._reduce_and_watch()
        return copied

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Forwards inside do not average: their gradients add up until the next forward and backward outside."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def accumulate(
        self, batches: Iterable[Any], steps: int | None = None, *, weigh: Callable[[Any], float] | None = None
    ) -> Iterator[MicroBatch]:
        """Micro-batches in groups of `steps` for one optimizer step each: see `ucxring.ddp.accumulate`."""
        return accumulate(self, batches, steps, weigh=weigh)

    def report(self) -> Report:
        """What steps took, and advice: means of this rank's latest steps, which `print` shows."""
        self._collect_timings()
        return self.watch.report()

    def trace(self, path: str | Path) -> None:
        """Writes this rank's latest steps as a trace for chrome://tracing or ui.perfetto.dev."""
        self._collect_timings()
        self.watch.trace(path)

    def picture(self, path: str | Path, step: int | None = None) -> None:
        """Draws the timeline of a step, the latest by default, as PNG, SVG or PDF by the name of `path`."""
        self._collect_timings()
        self.watch.picture(path, step)

    def register_comm_hook(self, state: object, hook: CommHook) -> None:
        """Replaces the all-reduce of each bucket by `hook(state, bucket)`, which returns a future of the mean.

        Once, before the first forward. torch's own hooks and those in `ucxring.ddp.hooks` fit. A hook whose callbacks
        start further collectives gets one bucket at a time, because their order would else differ between ranks; one
        that says `hook.chains = False` starts all its collectives in the call and gets buckets as they are complete.
        """
        chains = getattr(hook, "chains", hook not in _TORCH_HOOKS_WITHOUT_CHAIN)
        self.reducer.register_comm_hook(state, expecting_future(hook), chains)

    def broadcast_model(self, root: int) -> None:
        """Gives every rank the parameters and buffers of rank `root` of the group. Collective."""
        tensors = list(self._parameters_by_name().values()) + self._buffers_to_broadcast()
        _C.broadcast_values(self.process_group, tensors, root)

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Join:
        """A context for a loop whose inputs end earlier on some ranks, as in torch.

        Ranks that are through take part with zeros until all are. Means are over all ranks, or over those that still
        have data when `divide_by_initial_world_size` is false.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """For `torch.distributed.algorithms.join.Join`."""
        self._divide_by_initial_world_size = kwargs.get("divide_by_initial_world_size", True)
        return DdpJoinHook(self)

    @property
    def join_device(self) -> torch.device:
        """For `Join`."""
        return self.device

    @property
    def join_process_group(self) -> dist.ProcessGroup:
        """For `Join`."""
        return self.process_group

    def shadow_step(self) -> None:
        """What a rank without data does for one forward and backward of the others. For `DdpJoinHook`."""
        attendance = take_attendance(self, active=False)
        if not attendance.synchronise:
            return
        self.reducer.begin_forward(True)
        self._synchronise_forward(attendance, 0)
        self.reducer.take_part_without_data()

    def _state_to_copy(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _OF_ONE_PROCESS}

    def _reduce_and_watch(self) -> None:
        self.reducer = self._make_reducer()
        self.watch = Watch(
            self.module,
            dist.get_rank(self.process_group),
            dist.get_world_size(self.process_group),
            ignored=self._ignored,
            link_bytes_per_second=_link_bytes_per_second(self.process_group, self.device),
        )

    def _make_reducer(self) -> _C.Reducer:
        trained = {name: each for name, each in self._parameters_by_name().items() if each.requires_grad}
        sparse = _sparse_weights(self.module)
        cap = int(self._bucket_cap_mb * (1 << 20))
        return _C.Reducer(
            list(trained.values()),
            list(trained),
            [id(parameter) in sparse for parameter in trained.values()],
            self.process_group,
            first_bucket_bytes=min(_FIRST_BUCKET_BYTES, cap),
            bucket_bytes=cap,
            find_unused_parameters=self.find_unused_parameters,
            gradient_as_bucket_view=self.gradient_as_bucket_view,
            static_graph=self.static_graph,
        )

    def _before_forward(self, synchronise: bool, samples: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What ranks do together before a forward."""
        Join.notify_join_context(self)
        attendance = take_attendance(self, active=True) if self._join_config.enable else None
        self._collect_timings()
        batch_hash, parameter_hash = self.watch.forward_begins(args, kwargs, synchronise)
        if synchronise:
            self.reducer.annotate(batch_hash, parameter_hash)
        self.reducer.begin_forward(synchronise)
        if synchronise:
            self._synchronise_forward(attendance, samples + self.reducer.samples)

    def _synchronise_forward(self, attendance: Attendance | None, samples: int) -> None:
        buffers = self._buffers_to_broadcast() if self.broadcast_buffers else []
        if buffers:
            _C.broadcast_values(self.process_group, buffers, attendance.active[0] if attendance else 0)
        if self.average == "samples":
            total = torch.tensor([samples], dtype=torch.int64, device=self.device)
            dist.all_reduce(total, group=self.process_group)
            self.reducer.set_weight(samples / max(int(total), 1))
        elif attendance and not self._divide_by_initial_world_size:
            self.reducer.set_weight(1 / len(attendance.active))
        else:
            self.reducer.set_weight(None)

    def _collect_timings(self) -> None:
        self.watch.steps_finished(self.reducer.take_timings())

    def _parameters_by_name(self) -> dict[str, nn.Parameter]:
        named = self.module.named_parameters()
        return {name: parameter for name, parameter in named if name not in self._ignored}

    def _buffers_to_broadcast(self) -> list[Tensor]:
        return [buffer for _, buffer in self._named_buffers_to_broadcast()]

    def _named_buffers_to_broadcast(self) -> list[tuple[str, Tensor]]:
        return [(name, buffer) for name, buffer in self.module.named_buffers() if name not in self._ignored]


def _choose_group(process_group: dist.ProcessGroup | None, mesh: DeviceMesh | None) -> dist.ProcessGroup:
    if mesh is not None:
        return mesh.get_group()
    group = dist.group.WORLD if process_group is None else process_group
    if group is None:
        raise ValueError("call torch.distributed.init_process_group first")
    return group


def _link_bytes_per_second(group: dist.ProcessGroup, device: torch.device) -> float | None:
    """What ucxring measured between the ranks when it first needed to choose; None: other backends, or not yet."""
    backend = group._get_backend(device)
    return backend.link_bytes_per_second if isinstance(backend, _C.ProcessGroupUcxring) else None


def _sparse_weights(module: nn.Module) -> set[int]:
    """Identities of the parameters that get sparse gradients."""
    embeddings = (each for each in module.modules() if isinstance(each, (nn.Embedding, nn.EmbeddingBag)))
    return {id(each.weight) for each in embeddings if each.sparse}


def _sample_count(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    count = sample_count((args, kwargs))
    if count is None:
        raise ValueError("average='samples' counts the first tensor's rows, but forward got no tensor")
    return count
