"""The command line `ucxring`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ucxring import _build_info
from ucxring.arguments import at_least
from ucxring.bench import command as bench_command
from ucxring.launch import RankFailedError

_EXTRAS = {"demo": "demo", "bench": "bench"}  # what a command needs beyond the package
_OPTIONAL = ("matplotlib", "rich", "sklearn")


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(prog="ucxring", description="Collective communication for PyTorch over UCX.")
    parser.add_argument("--version", action="version", version=f"ucxring {_build_info.VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    _add_demo(commands.add_parser("demo", help="train a small network on several ranks and compare with Gloo"))
    bench_command.add(commands.add_parser("bench", help="measure a collective of several systems side by side"))
    commands.add_parser("info", help="versions, transports and network devices").set_defaults(run=_info)
    commands.add_parser("settings", help="all UCXRING_* variables and their values").set_defaults(run=_settings)
    return parser


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ranks", type=at_least(1), default=2)
    parser.add_argument("--backend", default="ucxring", help="backend to test (default: %(default)s)")
    parser.add_argument("--epochs", type=at_least(1), default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("ucxring-demo"), metavar="DIR", help="results and plot")
    parser.set_defaults(run=_demo)


def _demo(values: argparse.Namespace, _parser: argparse.ArgumentParser) -> int:
    from ucxring import demo

    return demo.run(demo.Options(values.ranks, values.backend, values.epochs, values.seed, values.output))


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
        print(
            f"ucxring {values.command} needs {error.name}: pip install 'ucxring[{_EXTRAS[values.command]}]'",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        return 130
    return code
