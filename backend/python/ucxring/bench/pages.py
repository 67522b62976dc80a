"""Writes kept results into the documentation: a table for each between its markers, and a picture beside it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ucxring import console as console_output
from ucxring.bench import pictures
from ucxring.bench.overlap import report as overlap_report
from ucxring.bench.peers.compare import BEST
from ucxring.bench.plan import show_size
from ucxring.bench.report import show_ratio, show_time

END = "<!-- report:end -->"
_SECTION = re.compile(rf"(<!-- report:begin (\S+) -->\n).*?({END})", re.DOTALL)
NEWER = "<!-- report:begin {name} -->\n" + END + "\n"

Record = Mapping[str, Any]


def load(folder: Path) -> dict[str, Record]:
    """All kept results by name, which is that of the file without its suffix."""
    return {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}


def render(page: str, results: Mapping[str, Record], pictures_at: str) -> str:
    """The page with every table as its result says; results without markers are added at the end.

    `pictures_at` leads from the page to the folder of pictures. Raises ValueError for markers without a result.
    """
    known = {name for _, name, _ in _SECTION.findall(page)}
    if missing := known - set(results):
        raise ValueError(f"the page has markers for results that are not there: {', '.join(sorted(missing))}")
    for name in results:
        if name not in known:
            page = page.rstrip("\n") + "\n\n" + NEWER.format(name=name)

    def section(match: re.Match[str]) -> str:
        begin, name, end = match.groups()
        return f"{begin}{markdown(name, results[name], pictures_at)}{end}"

    return _SECTION.sub(section, page)


def markdown(name: str, record: Record, pictures_at: str) -> str:
    """What stands between the markers: command, picture and table."""
    about = record["conditions"]
    command = re.sub(r" --(json|picture|peer-dir|perf-program) \S+", "", about["command"])
    parts = [f"```sh\n{command}\n```"]
    if pictures.drawable(record):
        parts.append(f"![{pictures.heading(record)}]({pictures_at}/{name}.svg)")
    parts.append(f"{about['processor']}, {about['cores']} cores, torch {about['torch']}, {about['time'][:10]}.")
    if setups := about.get("setups"):
        parts.append("\n".join(_setup(system, setup) for system, setup in setups.items()))
    if "overlap" in record:
        lines = overlap_report.markdown(record)
    else:
        lines = _verdicts(record["targets"]) if "targets" in record else _table(record)
    return "\n\n".join([*parts, "\n".join(lines)]) + "\n"


def _setup(system: str, setup: Record) -> str:
    return f"- {system}: {setup['version']}, `{' '.join(setup['settings'])}`"


def _verdicts(targets: list[Record]) -> list[str]:
    lines = [_line(["run", "size", "wanted", "found", "reached"]), "|---" * 5 + "|"]
    for each in targets:
        found = f"not measured: {each['why'].splitlines()[0]}" if each["found"] is None else f"{each['found']:.3g}"
        reached = "yes" if each["reached"] else "**no**"
        lines.append(_line([each["run"], each["size"] or "–", each["wanted"], found, reached]))
    return lines


def _table(record: Record) -> list[str]:
    systems = list(dict.fromkeys(row["backend"] for row in record["rows"]))
    others = list(next(iter(record["ratios"].values()), {}))
    costs = any(row.get("cpu_seconds_per_gb") is not None for row in record["rows"])
    limited = any(row.get("line_share") is not None for row in record["rows"])
    heads = ["size", *systems, *(f"{'best peer' if each == BEST else each} ÷ {systems[0]}" for each in others)]
    heads += [f"{each}, of the line" for each in systems if limited]
    heads += [f"CPU s/GB {each}" for each in systems if costs and not limited]
    lines = [_line(heads), "|---" * len(heads) + "|"]
    for size, ratios in record["ratios"].items():
        rows = [row for row in record["rows"] if row["size"] == int(size)]
        cells = [show_bytes(int(size)), *(show_time(row["median_seconds"]) for row in rows)]
        cells += [show_ratio(ratios[each]) for each in others]
        if limited:
            cells += [f"{row['line_share']:.1%}" for row in rows]
        elif costs:
            cells += [_cost(row["cpu_seconds_per_gb"]) for row in rows]
        lines.append(_line(cells))
    if means := record.get("geometric_means"):
        lines.append(_line(["geometric mean", *("" for _ in systems), *(show_ratio(means[each]) for each in others)]))
    return lines


def _cost(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.2f}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def show_bytes(size: int) -> str:
    """A size as prose has it: "64 KiB"."""
    text = show_size(size)
    return f"{text[:-1]} {text[-1]}iB" if text[-1].isalpha() else f"{text} B"


def stale(results: Path, page: Path) -> bool:
    """Whether the page says something else than the kept results."""
    text = page.read_text()
    return render(text, load(results), _leads(page, results)) != text


def _leads(page: Path, results: Path) -> str:
    return os.path.relpath(results.resolve(), page.resolve().parent)


def run(results: Path, page: Path) -> int:
    """Draws all pictures and writes all tables; running it again changes nothing."""
    console = console_output.make()
    for path, there in ((results, results.is_dir()), (page, page.is_file())):
        if not there:
            console.print(f"{path} does not exist", markup=False)
            return 1
    records = load(results)
    try:
        text = render(page.read_text(), records, _leads(page, results))
    except ValueError as error:
        console.print(f"{page}: {error}", markup=False)
        return 1
    for name, record in records.items():
        pictures.draw(record, results / name)
    page.write_text(text)
    console.print(f"{len(records)} results in {page}", markup=False)
    return 0
