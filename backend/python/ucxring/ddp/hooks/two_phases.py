"""Hooks that need two collectives, the second made from the result of the first."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.futures import Future

from ucxring.ddp.hooks.groups import or_world, private_group

Start = Callable[[], Future[Any]]


@dataclass
class _Bucket:
    first: Start
    prepare: Callable[[], Start]
    finish: Callable[[], torch.Tensor]
    result: Future[Any]
    second: Start | None = None
    error: BaseException | None = None

    def ready(self) -> bool:
        return self.second is not None or self.error is not None


class TwoPhases:
    """Carries buckets through two collectives, without a wait in the hook or in a callback.

    All ranks must call the collectives of a group in the same order, and here is a trap. If the second collective of
    bucket 0 were called, in the same group, where its first one is done, then on one rank before backward reaches
    bucket 1 and its first collective, on another rank after it: two orders, and a hang or wrong numbers. Two buckets
    whose first collectives end in another order on another rank, as Gloo's may, are a second such trap. So

    - first and second collectives have a group each, which nobody else uses;
    - in each group they are called in the order of the buckets: the first ones when that of the bucket before is done,
      the second ones when the own first one is done and the second ones of all earlier buckets have been called.

    One first collective at a time lets the buckets follow each other as in a pipeline. All at once would share the
    network and end together; then it would idle while all are summed, and again while all are unpacked.

    The price is two groups of the same ranks, made here: a collective call, so make a hook's state on all ranks.
    """

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        group = or_world(group)
        self.first_group, self.second_group = private_group(group), private_group(group)
        self._lock = threading.Lock()
        self._waiting: deque[_Bucket] = deque()  # for their first collective
        self._running = False  # whether a first collective is
        self._buckets: deque[_Bucket] = deque()  # whose second collective has not been called

    def run(
        self, first: Start, prepare: Callable[[], Start], finish: Callable[[], torch.Tensor], device: torch.device
    ) -> Future[torch.Tensor]:
        """What a hook returns, which calls this once per bucket.

        `first` starts the first collective. `prepare` runs when it is done and returns the function that starts the
        second one; `finish` runs when that is done and returns the averages. They run in the thread of the hook or in
        threads of the backend, never two of the same bucket at once. An exception in them is that of the future.
        """
        result: Future[Any] = Future(devices=[device] if device.type != "cpu" else None)
        bucket = _Bucket(first, prepare, finish, result)
        averages = result.then(_unwrap)
        with self._lock:
            self._buckets.append(bucket)
            self._waiting.append(bucket)
        self._start_a_first()
        return averages

    def _start_a_first(self) -> None:
        """Starts the next first collective unless one runs."""
        with self._lock:
            if self._running or not self._waiting:
                return
            self._running = True
            bucket = self._waiting.popleft()
            started = _started(bucket.first)
        started.then(lambda done: self._first_is_done(bucket, done))

    def _first_is_done(self, bucket: _Bucket, done: Future[Any]) -> None:
        with self._lock:
            self._running = False
        self._start_a_first()
        second, error = None, None
        try:
            done.value()
            second = bucket.prepare()
        except BaseException as raised:
            error = raised
        with self._lock:
            bucket.second, bucket.error = second, error
            turns = self._start_seconds()
        for each, started in turns:
            started.then(lambda done, each=each: each.result.set_result(_outcome(done, each.finish)))

    def _start_seconds(self) -> list[tuple[_Bucket, Future[Any]]]:
        """Starts those whose turn it is, under the lock and so in order; callbacks are added without it."""
        turns = []
        while self._buckets and self._buckets[0].ready():
            bucket = self._buckets.popleft()
            turns.append((bucket, _failed(bucket.error) if bucket.second is None else _started(bucket.second)))
        return turns


def _started(start: Start) -> Future[Any]:
    try:
        return start()
    except BaseException as error:
        return _failed(error)


def _failed(error: BaseException | None) -> Future[Any]:
    """A future that is done with `error`. Only one that comes from a callback has the text of its error in C++, too."""
    future: Future[Any] = Future()
    future.set_result(error)
    return future.then(_unwrap)


def _outcome(done: Future[Any], finish: Callable[[], torch.Tensor]) -> torch.Tensor | BaseException:
    try:
        done.value()
        return finish()
    except BaseException as error:
        return error


def _unwrap(result: Future[Any]) -> torch.Tensor:
    outcome = result.value()
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
