"""The report of `UCXRING_DDP_REPORT=1`."""

from __future__ import annotations

import atexit
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ucxring import _C
    from ucxring.ddp.watch.watch import Watch
    from ucxring.ddp.wrapper import DistributedDataParallel


def report_at_exit(ddp: DistributedDataParallel) -> None:
    """Prints the report of `ddp` when the program ends, also when the wrapper is gone by then. Keeps no model."""
    history = ddp.watch.history
    reference = weakref.ref(ddp)
    weakref.finalize(ddp, _collect, ddp.watch, ddp.reducer).atexit = False

    def show() -> None:
        alive = reference()
        if alive is not None:
            _collect(alive.watch, alive.reducer)
        history.print_report()

    atexit.register(show)


def _collect(watch: Watch, reducer: _C.Reducer) -> None:
    watch.steps_finished(reducer.take_timings())
