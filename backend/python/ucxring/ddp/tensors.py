"""Tensors in nested values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from torch import Tensor


def find_tensors(value: object) -> Iterator[Tensor]:
    """All tensors in lists, tuples, mappings and dataclasses, depth first."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from find_tensors(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from find_tensors(each)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from find_tensors(getattr(value, field.name))


def map_tensors(value: object, change: Callable[[Tensor], Tensor]) -> object:
    """A copy of the nested lists, tuples and dicts with every tensor changed; anything else as it is."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(each, change) for each in value))
    if type(value) in (list, tuple):
        return type(value)(map_tensors(each, change) for each in value)  # type: ignore[call-arg]
    if type(value) is dict:
        return {key: map_tensors(each, change) for key, each in value.items()}
    return value
