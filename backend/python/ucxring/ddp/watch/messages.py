"""The warnings' texts: what is wrong, what it costs, what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ucxring.ddp.watch.figures import RankFigures

SHOWN = 8  # names and ranks in a message


def listed(values: Iterable[object]) -> str:
    """Words for a sentence, 0, 1 and 2; long lists are cut."""
    words = [str(value) for value in values]
    if len(words) > SHOWN:
        words = [*words[:SHOWN], f"{len(words) - SHOWN} more"]
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def batch_norm(names: Sequence[str]) -> str:
    """BatchNorm modules of these names use the statistics of each rank's batch alone."""
    return (
        f"BatchNorm is not synchronised: {listed(names)} normalise with the statistics of each rank's own batch. "
        "Convert the model before wrapping it, model = ucxring.ddp.convert_sync_batchnorm(model), or ignore this when "
        "each rank's batch is large."
    )


def same_batch(ranks: Sequence[int], steps: int) -> str:
    """These ranks had equal batches in so many steps."""
    return (
        f"ranks {listed(ranks)} train on the same batches (in {steps} of the first steps): they repeat the same work "
        "instead of sharing it. Give the DataLoader a sampler, DataLoader(data, sampler=DistributedSampler(data), ...) "
        "with torch.utils.data.DistributedSampler, and call sampler.set_epoch(epoch) at the start of each epoch."
    )


def drift(ranks: str, names: Sequence[str], step: int) -> str:
    """Parameters, of these names if known, differ between ranks."""
    where = f" in the parameters {listed(names)}" if names else ""
    return (
        f"the replicas have drifted apart: {ranks}{where} (seen in step {step}). From here on each rank trains a model "
        "of its own. Look for parameters or gradients changed on one rank only (a checkpoint loaded on one rank after "
        "wrapping, clipping or an optimizer step that only some ranks do, optimizers with different settings or "
        "states), and load the same checkpoint on all ranks before going on."
    )


def straggler(slow: Sequence[RankFigures]) -> str:
    """These ranks keep the others waiting."""
    texts = [f"rank {r.rank} needs {1e3 * r.seconds:.1f} ms per step, {r.ratio:.2f} times the others" for r in slow]
    return (
        f"all ranks wait for the slowest: {listed(texts)} (own work, without waiting). Look there for slow data "
        "loading (more workers), longer samples (sort them into batches of equal length), other programs, fewer "
        "threads or a throttled device; ddp.trace(path) shows where the time goes."
    )


def communication(seconds: float, exposed: float, micro_batches: int, limit: float) -> str:
    """Of a step of `seconds`, `exposed` seconds are communication that is not hidden: more than the share `limit`."""
    work = max(1e-9, (seconds - exposed) / micro_batches)
    wanted = limit / 2
    steps = max(micro_batches + 1, math.ceil(exposed * (1 - wanted) / (wanted * work)))
    share = exposed / (exposed + steps * work)
    return (
        f"communication that is not hidden takes {exposed / seconds:.0%} of each step ({1e3 * exposed:.1f} of "
        f"{1e3 * seconds:.1f} ms): too little is computed between two averagings. Accumulate more micro-batches "
        f"(ddp.accumulate(batches, steps={steps}) instead of {micro_batches} brings it to about {share:.0%}), send "
        "gradients in 16 bits (the bf16 hook), or take a larger batch."
    )


def no_backward(rank: int, forwards: int) -> str:
    """A rank ran so many forwards and no backward."""
    return (
        f"rank {rank} ran {forwards} forwards in training mode with no backward between them: gradients are averaged "
        "in backward, and the other ranks wait there for this one. Call loss.backward() after each forward; evaluate "
        "with model.eval() and torch.no_grad(); to gather gradients over several batches use ddp.accumulate(...)."
    )
