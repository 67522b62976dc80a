"""PyTorch's own tests of process groups on ucxring: each that executes on Gloo executes and passes here.

The world size is that of the variable WORLD_SIZE, 2 or 4.
"""

from __future__ import annotations

import os

import pytest
import pytorch_suite
from compatibility import CANNOT

WORLD_SIZE = int(os.environ["WORLD_SIZE"])
NAMES = pytorch_suite.listed(WORLD_SIZE)


def test_the_list_is_complete() -> None:
    assert len(NAMES) > 80
    assert set(CANNOT) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_of_pytorch(name: str) -> None:
    if name in CANNOT:
        pytest.skip(CANNOT[name])
    if not hasattr(pytorch_suite.SeveralRanks, name):
        pytest.skip("this version of torch has no such test")
    result = pytorch_suite.run_test(name)
    assert not result.skipped, f"it executes on Gloo, but here: {result.skipped[0][1]}"
    assert result.wasSuccessful(), "\n".join(text for _, text in result.errors + result.failures)
