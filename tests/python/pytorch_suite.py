"""PyTorch's own tests of process groups, from the wheel, for any backend: one case is one test on several ranks.

The tests ask by name whether a backend can do something ("only gloo supports timeouts"). While the module is imported
it is told that the backend is gloo, so that exactly what runs on Gloo runs here; afterwards it is told the real name.
Ranks come from a fork server that has imported everything, which saves seconds a test.

As a program it runs the tests that it is given, or all, and says what became of each: executed, skipped or failed. So
the list of what executes on Gloo (pytorch_tests.txt) is made, with UNDER_TEST=gloo and WORLD_SIZE=2 and 4.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import unittest
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("WORLD_SIZE", "2")
BACKEND = os.environ.setdefault("UNDER_TEST", "ucxring")
os.environ["BACKEND"] = "gloo"

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal import common_distributed  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402

import ucxring  # noqa: E402, F401  (registers the backend)

LIST = Path(__file__).with_name("pytorch_tests.txt")
INHERITED = ("MASTER_ADDR", "TEMP_DIR", "WORLD_SIZE", "UNDER_TEST", "UCXRING_TRANSPORT")


class ActsAsGloo(str):
    """The name under test, which says yes when a test asks whether it is gloo."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True or other == "gloo"

    def __ne__(self, other: object) -> bool:
        return not self == other


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """torch.distributed.monitored_barrier without its look at the name of the backend, as torch 2.14 has it."""
    if dist.distributed_c10d._rank_not_in_group(group):
        return
    chosen = dist.group.WORLD if group is None else group
    limit = dist.distributed_c10d._get_default_timeout(BACKEND) if timeout is None else timeout
    chosen.monitored_barrier(limit, wait_all_ranks=wait_all_ranks)


def tell_the_real_name() -> None:
    """What the tests look up while they run."""
    os.environ["BACKEND"] = BACKEND
    distributed_test.BACKEND = ActsAsGloo(BACKEND)
    for feature in ("gpu", "cuda", "ddp", "subgroup", "plugin"):
        common_distributed.DistTestCases.backend_feature[feature].add(BACKEND)
    for supported in ("PROFILING_SUPPORTED_BACKENDS", "SEND_RECV_PROFILING_SUPPORTED_BACKENDS"):
        getattr(distributed_test, supported).append(BACKEND)
    if BACKEND != "gloo":
        dist.monitored_barrier = monitored_barrier


tell_the_real_name()


class SeveralRanks(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    """One test of PyTorch's on WORLD_SIZE ranks."""

    def setUp(self) -> None:
        super().setUp()
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["pytorch_suite"])
        self._start_processes(context.Process)

    def _start_processes(self, proc: Any) -> None:
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}

        def with_environment(target: Any, name: str, args: Any, kwargs: Any) -> Any:
            return proc(target=target, name=name, args=args, kwargs={**kwargs, "environment": environment})

        super()._start_processes(with_environment)

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        os.environ.update(kwargs.pop("environment"))
        torch.set_num_threads(1)
        super()._run(rank, test_name, file_name, parent_pipe, **kwargs)


def run_test(name: str) -> unittest.TestResult:
    result = unittest.TestResult()
    SeveralRanks(name).run(result)
    return result


def listed(world_size: int) -> list[str]:
    """The tests that execute on Gloo with `world_size` ranks."""
    lines = [line.split() for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return [name for name, *sizes in lines if str(world_size) in sizes]


def main() -> None:
    for name in sys.argv[1:] or [name for name in dir(SeveralRanks) if name.startswith("test_")]:
        result = run_test(name)
        problems = [text for _, text in result.errors + result.failures]
        print("failed" if problems else "skipped" if result.skipped else "executed", name, *problems, flush=True)


if __name__ == "__main__":
    import pytorch_suite  # under the name by which the ranks import it

    pytorch_suite.main()
