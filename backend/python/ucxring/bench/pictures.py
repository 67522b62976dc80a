"""Draws a result: latency and bus bandwidth over size, one line per system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ucxring.bench.plan import MEMCPY, show_size
from ucxring.bench.report import show_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg")
# Colours of Okabe and Ito, which people with any colour vision can tell apart; the marker says the same again.
STYLES = (
    {"color": "#0072B2", "marker": "o"},
    {"color": "#D55E00", "marker": "s"},
    {"color": "#009E73", "marker": "^"},
    {"color": "#CC79A7", "marker": "D"},
    {"color": "#E69F00", "marker": "v"},
    {"color": "#56B4E9", "marker": "P"},
)
# What is no system that a user could choose, but tells what to expect of one.
REFERENCES = {
    MEMCPY: {"color": "#444444", "linestyle": "--", "label": "bound: memcpy of as many bytes"},
    "fake": {"color": "#444444", "linestyle": ":", "label": "floor: a backend that does nothing"},
}
MOST_TICKS = 9
SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "ucxring", "font.size": 10, "axes.titlesize": 11}

Record = Mapping[str, Any]


def drawable(record: Record) -> bool:
    """Whether there are lines to draw: at least two sizes."""
    return len({row["size"] for row in record.get("rows", [])}) > 1


def draw(record: Record, prefix: Path) -> list[Path]:
    """Writes `prefix`.png and `prefix`.svg, the same bytes for the same record. None when it is not `drawable`."""
    if not drawable(record):
        return []
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context(SETTINGS):
        figure, (latency, bandwidth) = pyplot.subplots(1, 2, figsize=(11, 5), layout="constrained")
        figure.suptitle(heading(record))
        rows = record["rows"]
        _lines(latency, rows, lambda row: row["median_seconds"])
        latency.set(title="Time per call, median", yscale="log")
        latency.yaxis.set_major_formatter(lambda seconds, _position: show_time(seconds))
        _lines(bandwidth, [row for row in rows if row["backend"] != "fake"], lambda row: row["busbw"] / 1e9)
        bandwidth.set(title="Bus bandwidth", ylabel="GB/s", ylim=(0, None))
        handles, labels = latency.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        files = [prefix.with_name(prefix.name + suffix) for suffix in SUFFIXES]
        for file in files:
            stable: dict[str, None] = {"Date": None} if file.suffix == ".svg" else {"Software": None}
            figure.savefig(file, dpi=110, metadata=stable)
        pyplot.close(figure)
    return files


def heading(record: Record) -> str:
    """The collective, the element type, the ranks, what was special and the machine."""
    plan, conditions = record["plan"], record["conditions"]
    special = {
        "registered tensors": plan.get("registered"),
        "bound to cores": plan.get("bind"),
        "every core busy": conditions.get("busy_loops"),
        f"links of {conditions.get('rate')}": conditions.get("rate"),
    }
    kept = [words for words, wanted in special.items() if wanted]
    machine = f"{conditions['processor']}, {conditions['cores']} cores"
    return ", ".join([plan["collective"], plan["dtype"], f"{plan['ranks']} ranks", *kept, machine])


def _lines(axes: Axes, rows: Sequence[Record], value: Any) -> None:
    styles = iter(STYLES)
    for name in sorted(dict.fromkeys(row["backend"] for row in rows), key=REFERENCES.__contains__):
        chosen = [row for row in rows if row["backend"] == name]
        style: Mapping[str, Any] = REFERENCES.get(name) or {**next(styles), "markersize": 5, "label": name}
        axes.plot([row["size"] for row in chosen], [value(row) for row in chosen], **style)
    sizes = sorted({row["size"] for row in rows})
    shown = sizes[:: -(-len(sizes) // MOST_TICKS)]
    axes.set_xscale("log", base=2)
    axes.set_xticks(shown, [show_size(size) for size in shown])
    axes.set_xlabel("bytes")
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
