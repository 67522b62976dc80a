"""Tensors over registered memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ucxring import _C


def empty(*size: int | Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
    """A tensor on the CPU, like `torch.empty`, over memory that the other processes of this machine can read in place.

    Collectives between processes of one machine use such tensors without a copy of their own; everywhere else they
    are ordinary tensors. `size` is integers or one sequence of them, `dtype` torch's default type when not given. The
    memory goes back with the tensor's storage. A forked child shares it with its parent: it is not copied on write.
    Where the system refuses memory files, all of them are ordinary tensors, and the first one comes with a warning.

    Raises:
        torch.OutOfMemoryError: says how much is missing, what limits it and what to do.

    """
    shape = [length for lengths in size for length in ([lengths] if isinstance(lengths, int) else lengths)]
    return _C.empty(shape, torch.get_default_dtype() if dtype is None else dtype)
