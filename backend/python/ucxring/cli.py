"""The command line `ucxring`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ucxring.bench.plan import COLLECTIVES, DTYPES, OPS, Plan, parse_sizes
from ucxring.launch import RankFailedError

_OPTIONAL = ("matplotlib", "rich", "sklearn")


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(prog="ucxring", description="Collective communication for PyTorch over UCX.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    _add_demo(commands.add_parser("demo", help="train a small network on several ranks and compare with Gloo"))
    _add_bench(commands.add_parser("bench", help="measure a collective of several backends side by side"))
    commands.add_parser("info", help="versions, transports and network devices").set_defaults(run=_info)
    commands.add_parser("settings", help="all UCXRING_* variables and their values").set_defaults(run=_settings)
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return value

    return whole


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


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ranks", type=_at_least(1), default=2)
    parser.add_argument("--backend", default="ucxring", help="backend to test (default: %(default)s)")
    parser.add_argument("--epochs", type=_at_least(1), default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("ucxring-demo"), metavar="DIR", help="results and plot")
    parser.set_defaults(run=_demo)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("collective", choices=COLLECTIVES)
    parser.add_argument("--ranks", type=_at_least(2), help="processes (default: 2)")
    parser.add_argument("--backends", type=_names, default=["ucxring", "gloo"], metavar="A,B")
    parser.add_argument("--sizes", type=_sizes, metavar="S", help="bytes: first:last[:factor] or a,b,c (4:64M)")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--op", choices=OPS, default="sum")
    parser.add_argument("--trials", type=_at_least(1), default=21)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    parser.add_argument("--load", action="store_true", help="keep every core busy beside it")
    parser.add_argument("--perf", action="store_true", help="count events with `perf stat` at the largest size")
    parser.add_argument("--namespaces", type=_at_least(2), metavar="N", help="N ranks, each in a network namespace")
    parser.add_argument("--rate", metavar="R", help="rate of each link between namespaces, such as 1gbit")
    parser.set_defaults(run=_bench)


def _demo(values: argparse.Namespace, _parser: argparse.ArgumentParser) -> int:
    from ucxring import demo

    return demo.run(demo.Options(values.ranks, values.backend, values.epochs, values.seed, values.output))


def _bench(values: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
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
    sizes = [0] if values.collective == "barrier" else values.sizes or parse_sizes("4:64M")
    plan = Plan(
        collective=values.collective,
        ranks=values.namespaces or values.ranks or 2,
        backends=values.backends,
        sizes=sizes,
        dtype=values.dtype,
        op=values.op,
        trials=values.trials,
        perf=values.perf,
    )
    return run.run(plan, run.Conditions(values.json, values.load, bool(values.namespaces), values.rate))


def _info(_values: argparse.Namespace, _parser: argparse.ArgumentParser) -> int:
    from ucxring import info

    return info.show_info()


def _settings(_values: argparse.Namespace, _parser: argparse.ArgumentParser) -> int:
    from ucxring import info

    return info.show_settings()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; its exit code."""
    parser = build_parser()
    values = parser.parse_args(arguments)
    try:
        code: int = values.run(values, parser)
    except RankFailedError as error:
        print(f"ucxring {values.command}: {error}; its own messages are above", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        if error.name not in _OPTIONAL:
            raise
        print(f"ucxring {values.command} needs {error.name}: pip install 'ucxring[demo]'", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code
