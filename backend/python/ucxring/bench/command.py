"""The command line of `ucxring bench`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ucxring.arguments import at_least
from ucxring.bench.overlap.plan import HOOKS, MODELS, PLAIN, parse_system
from ucxring.bench.plan import COLLECTIVES, CUT, DTYPES, MEMCPY, OPS, Plan, geometric, parse_sizes

if TYPE_CHECKING:
    from ucxring.bench.peers import run as peers_run
    from ucxring.bench.run import Conditions

PEERS = ("openmpi", "mpich", "intelmpi")
OVERLAP, REPORT, TARGETS = "overlap", "report", "targets"


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if not names or len(set(names)) != len(names):
        raise argparse.ArgumentTypeError("must name backends, each once, such as ucxring,gloo")
    return names


def _sizes(text: str) -> list[int]:
    try:
        return parse_sizes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _peers(text: str) -> list[str]:
    names = _names(text)
    if unknown := [name for name in names if name not in PEERS]:
        raise argparse.ArgumentTypeError(f"does not know {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return names


def _systems(text: str) -> list[str]:
    try:
        return [str(parse_system(name)) for name in _names(text)]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add(parser: argparse.ArgumentParser) -> None:
    """Adds all arguments, and what runs them."""
    what = [*COLLECTIVES, OVERLAP, REPORT, TARGETS]
    parser.add_argument(
        "what",
        nargs="?",
        choices=what,
        metavar="collective",
        help=f"{', '.join(COLLECTIVES)}; or overlap, report, or targets",
    )
    _add_measuring(parser.add_argument_group("a collective"))
    _add_conditions(parser.add_argument_group("a collective of torch.distributed"))
    _add_peers(parser.add_argument_group("compared with MPI, and targets"))
    _add_overlap(parser.add_argument_group("overlap: how much communication a DistributedDataParallel hides"))
    pages = parser.add_argument_group("report: writes tables and pictures of kept results into the documentation")
    pages.add_argument("--results", type=Path, default=Path("docs/results"), metavar="DIR", help="(%(default)s)")
    pages.add_argument(
        "--output", type=Path, default=Path("docs/performance.md"), metavar="FILE", help="page (%(default)s)"
    )
    parser.set_defaults(run=lambda values, _main: run(values, parser))


def _add_measuring(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--ranks", type=at_least(1), help="processes (default: 2)")
    group.add_argument("--sizes", type=_sizes, metavar="S", help="bytes: first:last[:factor] or a,b,c (4:64M)")
    group.add_argument("--dtype", choices=DTYPES, default="float32")
    group.add_argument("--memcpy", action="store_true", help="also measure all ranks copying as many bytes")
    group.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    group.add_argument("--picture", type=Path, metavar="PREFIX", help="draw PREFIX.png and PREFIX.svg")


def _add_conditions(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--backends", type=_names, default=["ucxring", "gloo"], metavar="A,B", help="(ucxring,gloo)")
    group.add_argument("--op", choices=OPS, default="sum")
    group.add_argument("--trials", type=at_least(1), default=21)
    group.add_argument("--parts", type=at_least(1), default=4, help="tensors that the vector is cut into (%(default)s)")
    group.add_argument("--registered", action="store_true", help="tensors from ucxring.empty")
    group.add_argument("--bind", action="store_true", help="keep each rank on one core")
    group.add_argument("--load", action="store_true", help="keep every core busy beside it")
    group.add_argument("--perf", action="store_true", help="count events with `perf stat` at the largest size")
    group.add_argument("--namespaces", type=at_least(2), metavar="N", help="N ranks, each in a network namespace")
    group.add_argument("--rate", metavar="R", help="rate of each link between namespaces, such as 1gbit")


def _add_peers(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--peers", type=_peers, metavar="A,B", help=f"compare C++ with {', '.join(PEERS)}")
    group.add_argument("--rounds", type=at_least(1), default=7, help="runs of each (default: %(default)s)")
    group.add_argument(
        "--peer-dir", type=Path, default=Path("build/peers"), metavar="DIR", help="installs there (%(default)s)"
    )
    group.add_argument("--perf-program", type=Path, metavar="FILE", help="ucxring_perf (default: searched)")


def _add_overlap(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--systems",
        type=_systems,
        default=["ucxring/ucxring", "torch/ucxring", "torch/gloo"],
        metavar="WRAPPER/BACKEND[/HOOK],…",
        help=f"the others are compared with the first; hooks: {', '.join(HOOKS)}; {PLAIN} is the module alone",
    )
    group.add_argument("--model", choices=MODELS, default=MODELS[0], help="(%(default)s)")
    group.add_argument(
        "--batch", type=at_least(1), metavar="N", help="of each rank (layers: backward takes 1 s/100 MB)"
    )
    group.add_argument("--micro-batches", type=at_least(1), default=1, metavar="K", help="of a batch (%(default)s)")
    group.add_argument("--megabytes", type=at_least(1), default=100, help="gradients of the layers (%(default)s)")


_PEERS_TOO = {"peers", "rounds", "peer_dir", "perf_program"}
_MEASURING = {"ranks", "sizes", "dtype", "memcpy", "json", "picture"}
_OVERLAP = {"systems", "model", "batch", "micro_batches", "megabytes"}
_ALLOWED = {
    "a collective": _MEASURING
    | {"backends", "op", "trials", "parts", "registered", "bind", "load", "perf", "namespaces", "rate"},
    "--peers": _MEASURING | _PEERS_TOO,
    OVERLAP: {"ranks", "json", "namespaces", "rate", "rounds"} | _OVERLAP,
    REPORT: {"results", "output"},
    TARGETS: {"json"} | _PEERS_TOO - {"peers"},
}


def _check_mode(values: argparse.Namespace, parser: argparse.ArgumentParser, mode: str) -> None:
    """Refuses options that mean nothing beside `mode`."""
    common = {"what", "command", "run"}
    for name, value in vars(values).items():
        if name not in _ALLOWED[mode] | common and value != parser.get_default(name):
            parser.error(f"--{name.replace('_', '-')} does not go with {mode}")


def run(values: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Does what was asked; the exit code."""
    if values.what in (REPORT, TARGETS):
        _check_mode(values, parser, values.what)
        return _report(values) if values.what == REPORT else _targets(values)
    if values.what == OVERLAP:
        _check_mode(values, parser, OVERLAP)
        return _overlap(values, parser)
    if values.ranks == 1:
        parser.error("--ranks must be at least 2, but for overlap")
    if values.peers:
        _check_mode(values, parser, "--peers")
        return _compare(values, parser)
    if values.what is None:
        parser.error("the following arguments are required: collective")
    _check_mode(values, parser, "a collective")
    return _measure(values, parser)


def _measure(values: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from ucxring.bench import run

    conditions = _conditions(values, parser)
    if MEMCPY in values.backends:
        parser.error(f"{MEMCPY} is no backend: give --{MEMCPY}")
    if values.parts != parser.get_default("parts") and values.what not in CUT:
        parser.error(f"--parts goes with {', '.join(CUT)}")
    barrier = values.what == "barrier"
    if barrier and values.memcpy:
        parser.error("--memcpy copies what a collective moves, and a barrier moves nothing")
    plan = Plan(
        collective=values.what,
        ranks=values.namespaces or values.ranks or 2,
        backends=values.backends,
        sizes=[0] if barrier else values.sizes or parse_sizes("4:64M"),
        dtype=values.dtype,
        op=values.op,
        trials=values.trials,
        perf=values.perf,
        registered=values.registered,
        bind=values.bind,
        memcpy=values.memcpy,
        parts=values.parts,
    )
    return run.run(plan, conditions)


def _conditions(values: argparse.Namespace, parser: argparse.ArgumentParser) -> Conditions:
    from ucxring.bench import namespaces, run

    if values.rate and not values.namespaces:
        parser.error("--rate limits links between namespaces: give --namespaces N too")
    if values.namespaces and values.ranks not in (None, values.namespaces):
        parser.error("--namespaces N starts N ranks: leave --ranks out, or give the same number")
    if values.rate:
        try:
            namespaces.bits_per_second(values.rate)
        except ValueError as error:
            parser.error(f"--rate: {error}")
    return run.Conditions(values.json, values.picture, values.load, bool(values.namespaces), values.rate)


def _overlap(values: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from ucxring.bench.overlap import run
    from ucxring.bench.overlap.plan import Plan

    conditions = _conditions(values, parser)
    ranks = values.namespaces or values.ranks or 2
    if PLAIN in values.systems and ranks > 1:
        parser.error(f"{PLAIN} averages nothing: it goes with --ranks 1")
    if values.batch and values.batch % values.micro_batches:
        parser.error("--batch must be a multiple of --micro-batches")
    if values.model != MODELS[0] and values.megabytes != parser.get_default("megabytes"):
        parser.error("--megabytes goes with --model layers")
    plan = Plan(
        systems=values.systems,
        model=values.model,
        ranks=ranks,
        rounds=values.rounds,
        batch=values.batch,
        micro_batches=values.micro_batches,
        megabytes=values.megabytes,
    )
    return run.run(plan, conditions)


def _compare(values: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from ucxring.bench.peers import run
    from ucxring.bench.peers.programs import Task

    collective = values.what or "all_reduce"
    if collective.endswith("_list") or collective in CUT:
        parser.error(f"--peers: {collective} is a call of torch.distributed alone")
    try:
        first, last, factor = geometric(values.sizes or parse_sizes("8:64M:2"))
    except ValueError as error:
        parser.error(f"--sizes: {error}")
    task = Task(collective, values.ranks or 2, first, last, factor, values.dtype)
    return run.run(task, _peer_conditions(values, values.peers))


def _peer_conditions(values: argparse.Namespace, peers: Sequence[str]) -> peers_run.Conditions:
    from ucxring.bench.peers import run

    return run.Conditions(
        peers, values.rounds, values.peer_dir, values.perf_program, values.memcpy, values.json, values.picture
    )


def _report(values: argparse.Namespace) -> int:
    from ucxring.bench import pages

    return pages.run(values.results, values.output)


def _targets(values: argparse.Namespace) -> int:
    from ucxring.bench import targets

    return targets.execute(_peer_conditions(values, PEERS))
