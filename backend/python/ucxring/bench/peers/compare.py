"""Runs the programs in turn, and compares what ran in the same round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ucxring.bench.peers.programs import ProgramError, Results
from ucxring.bench.plan import bus_factor

BEST = "best"  # in each round, whichever other library was fastest
Measure = Callable[[], Results]


@dataclass
class Rounds:
    """What was measured: for each round the results of each system. A system that failed once is left out after."""

    first: str
    results: list[dict[str, Results]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def systems(self) -> list[str]:
        """Those that have a result in every round, in the order of the first."""
        if not self.results:
            return []
        return [name for name in self.results[0] if all(name in each for each in self.results)]

    def values(self, system: str, size: int) -> list[float]:
        """The median of each round, in seconds."""
        return [each[system][size].median for each in self.results]

    def ratios(self, other: str, size: int) -> list[float]:
        """For each round, how many times as long the other took."""
        own = self.values(self.first, size)
        return [theirs / mine for theirs, mine in zip(self.values(other, size), own, strict=True)]


def alternate(
    first: str, measures: Mapping[str, Measure], rounds: int, tell: Callable[[str], None] = lambda _text: None
) -> Rounds:
    """Each system once per round: in the given order, then in the opposite one, and so on."""
    made = Rounds(first)
    for number in range(rounds):
        names = [name for name in measures if name not in made.failures]
        found: dict[str, Results] = {}
        for name in names if number % 2 == 0 else reversed(names):
            tell(f"round {number + 1} of {rounds}: {name}")
            try:
                found[name] = measures[name]()
            except ProgramError as error:
                made.failures[name] = str(error)
        if first in made.failures:
            break
        made.results.append({name: found[name] for name in measures if name in found})
    return made


def rows(made: Rounds, collective: str, ranks: int) -> list[dict[str, Any]]:
    """One row per size and system, as those of the other benchmarks."""
    found = []
    for size in sizes(made):
        for system in made.systems:
            median = statistics.median(made.values(system, size))
            found.append(
                {
                    "size": size,
                    "backend": system,
                    "median_seconds": median,
                    "least_seconds": min(each[system][size].best for each in made.results),
                    "algbw": size / median,
                    "busbw": size / median * bus_factor(collective, ranks),
                }
            )
    return found


def sizes(made: Rounds) -> list[int]:
    """Those which every system measured."""
    everything = [set(results[name]) for results in made.results for name in made.systems]
    return sorted(set.intersection(*everything)) if everything else []


def ratios(made: Rounds, peers: Sequence[str]) -> dict[int, dict[str, float]]:
    """For each size: the median over the rounds of each other system's time divided by the first's.

    `best` takes the fastest of `peers` in each round.
    """
    compared = [name for name in peers if name in made.systems]
    others = [name for name in made.systems if name != made.first]
    found = {}
    for size in sizes(made):
        found[size] = {other: statistics.median(made.ratios(other, size)) for other in others}
        if compared:
            rounds = zip(*(made.ratios(peer, size) for peer in compared), strict=True)
            found[size][BEST] = statistics.median(min(each) for each in rounds)
    return found


def geometric_means(found: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Over all sizes, for each column of `ratios`."""
    columns: dict[str, list[float]] = {}
    for each in found.values():
        for name, ratio in each.items():
            columns.setdefault(name, []).append(ratio)
    return {name: statistics.geometric_mean(values) for name, values in columns.items()}
