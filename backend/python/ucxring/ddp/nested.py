"""Batches: tensors in lists, tuples, mappings and dataclasses, nested in any way."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor


def leaves(value: Any) -> Iterator[Any]:
    """What lies in the containers of `value`, in their order; of mappings the values."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from leaves(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from leaves(each)
    elif is_dataclass_instance(value):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name))
    else:
        yield value


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors among the leaves."""
    return (leaf for leaf in leaves(value) if isinstance(leaf, Tensor))


def map_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A copy of the lists, tuples and dicts with every tensor changed; anything else as it is."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: map_tensors(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        parts = [map_tensors(each, change) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def is_dataclass_instance(value: Any) -> bool:
    """Whether `value` is an instance of a dataclass, not the class itself."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def sample_count(batch: Any) -> int | None:
    """The size of dimension 0 of the first tensor that has one; None: there is no such tensor."""
    return next((int(tensor.shape[0]) for tensor in tensors(batch) if tensor.dim() > 0), None)


def split(batch: Any, steps: int) -> list[Any]:
    """Splits a batch into at most `steps` parts along dimension 0, as equal as possible: sizes differ by at most one.

    Tensors are split into views, lists of plain items (texts, numbers) as long as the batch into slices; containers
    keep their type, mappings become dicts. Everything else, and tensors without dimensions, is in every part. A batch
    of fewer samples than `steps` gives one part per sample. Raises ValueError when nothing can be split or the tensors
    differ in dimension 0.
    """
    if steps < 1:
        raise ValueError(f"a batch is split into at least 1 part, not {steps}")
    count = _count(batch)
    parts = min(steps, max(count, 1))
    bounds = [part * (count // parts) + min(part, count % parts) for part in range(parts + 1)]
    return [_part(batch, first, last, count) for first, last in itertools.pairwise(bounds)]


def head(batch: Any, samples: int) -> Any:
    """The first `samples` samples of a batch, taken as `split` takes its parts."""
    count = _count(batch)
    return _part(batch, 0, min(samples, count), count)


def _count(batch: Any) -> int:
    """The samples that a batch has in every tensor, or items in a list of plain ones."""
    sizes = {int(tensor.shape[0]) for tensor in tensors(batch) if tensor.dim() > 0}
    if not sizes and isinstance(batch, list):
        sizes = {len(batch)}
    if len(sizes) != 1:
        what = f"tensors of {sorted(sizes)} samples" if sizes else "no tensor with a dimension"
        raise ValueError(f"cannot split a batch along dimension 0: it has {what}")
    return sizes.pop()


def _part(value: Any, first: int, last: int, count: int) -> Any:
    """The samples first … last - 1 of `value`, which belongs to a batch of `count`."""
    if isinstance(value, Tensor):
        return value[first:last] if value.dim() > 0 else value
    if isinstance(value, Mapping):
        return {key: _part(each, first, last, count) for key, each in value.items()}
    if isinstance(value, list) and len(value) == count and not any(_is_container(each) for each in value):
        return value[first:last]
    if isinstance(value, list | tuple):
        parts = [_part(each, first, last, count) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if is_dataclass_instance(value):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return dataclasses.replace(value, **{name: _part(getattr(value, name), first, last, count) for name in names})
    return value


def _is_container(value: Any) -> bool:
    return isinstance(value, Tensor | Mapping | list | tuple) or is_dataclass_instance(value)
