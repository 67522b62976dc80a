"""Writes the figures of docs/algorithms.md again: update_figures.py PATH_OF_ucxring_draw_schedule."""

import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "algorithms.md"
FIGURE = re.compile(r"<!-- figure: (?P<arguments>[\w ,]+) -->\n(?:\n```mermaid\n.*?```\n)?", re.DOTALL)


def with_figures(page: str, program: str) -> str:
    """`page` with the drawing of `program` below each figure's marker, in place of what stood there."""

    def draw(match: re.Match[str]) -> str:
        arguments = match["arguments"]
        drawn = subprocess.run([program, *arguments.split()], check=True, capture_output=True, text=True).stdout
        return f"<!-- figure: {arguments} -->\n\n```mermaid\n{drawn}```\n"

    return FIGURE.sub(draw, page)


if __name__ == "__main__":
    PAGE.write_text(with_figures(PAGE.read_text(encoding="utf-8"), sys.argv[1]), encoding="utf-8")
