"""Second collectives of buckets, in the order of the buckets."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.futures import Future

from ucxring.ddp.hooks.groups import or_world, second_group

Start = Callable[[], Future[Any]]


@dataclass
class _Bucket:
    prepare: Callable[[], Start]
    finish: Callable[[], torch.Tensor]
    result: Future[Any]
    start: Start | None = None
    error: BaseException | None = None

    def ready(self) -> bool:
        return self.start is not None or self.error is not None


class OrderedSecond:
    """Runs hooks that need two collectives, the second made from the result of the first.

    All ranks must call the collectives of a group in the same order, and here is a trap. If the second collective of
    bucket 0 were called where its first one is done, then on one rank before backward reaches bucket 1 and calls its
    first one, on another rank after it: two orders, and a hang or wrong numbers. Two buckets whose first collectives
    end in a different order on different ranks, as Gloo's may, are a second one. So

    - the first collectives go through the group of the hook, called in the hook: in the order of the buckets;
    - the second ones go through a group of their own, called where the first one is done *and* the second ones of all
      earlier buckets have been called: in the order of the buckets, too.

    Nothing waits in the hook or in a callback, and both collectives of different buckets overlap. The price is a second
    group of the same ranks, made here: a collective call, so make the state of a hook on all ranks of the group.
    """

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        first = or_world(group)
        self.group = second_group(first)
        """Where second collectives go."""
        ranks = range(first.size())
        self.ranks = [dist.get_group_rank(first, dist.get_global_rank(self.group, rank)) for rank in ranks]
        """The rank in the first group of each rank of the second one: the same, unless the first one is unsorted."""
        self._lock = threading.Lock()
        self._buckets: deque[_Bucket] = deque()

    def follow(
        self,
        first: Future[Any],
        prepare: Callable[[], Start],
        finish: Callable[[], torch.Tensor],
        device: torch.device,
    ) -> Future[torch.Tensor]:
        """What a hook returns whose first collective completes `first`. Call it once per bucket, in their order.

        `prepare` runs when the first collective is done and returns the function that starts the second one;
        `finish` runs when the second one is done and returns the averages. Both run on threads of the backend, and
        an exception in them is that of the future.
        """
        result: Future[Any] = Future(devices=[device] if device.type != "cpu" else None)
        bucket = _Bucket(prepare, finish, result)
        with self._lock:
            self._buckets.append(bucket)
        first.then(lambda done: self._first_is_done(bucket, done))
        return result.then(_unwrap)

    def _first_is_done(self, bucket: _Bucket, first: Future[Any]) -> None:
        start, error = None, None
        try:
            first.value()
            start = bucket.prepare()
        except BaseException as raised:
            error = raised
        with self._lock:
            bucket.start, bucket.error = start, error
            started = self._start_those_whose_turn_it_is()
        for each, second in started:
            if second is None:
                each.result.set_result(each.error)
            else:
                second.then(lambda done, each=each: each.result.set_result(_outcome(done, each.finish)))

    def _start_those_whose_turn_it_is(self) -> list[tuple[_Bucket, Future[Any] | None]]:
        """Starts, under the lock and so in order; what is done with the futures need not hold it."""
        started: list[tuple[_Bucket, Future[Any] | None]] = []
        while self._buckets and self._buckets[0].ready():
            bucket = self._buckets.popleft()
            second = None
            try:
                second = bucket.start() if bucket.start is not None else None
            except BaseException as error:
                bucket.error = error
            started.append((bucket, second))
        return started


def _outcome(done: Future[Any], finish: Callable[[], torch.Tensor]) -> torch.Tensor | BaseException:
    try:
        done.value()
        return finish()
    except BaseException as error:
        return error


def _unwrap(result: Future[Any]) -> torch.Tensor:
    """Raises what went wrong: only an exception from a callback reaches `DistributedDataParallel` with its text."""
    outcome = result.value()
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
