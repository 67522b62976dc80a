"""Sentences about Python's standard library: the task is to tell which module a sentence is about.

They come from the docstrings of the library's source files, which every Python brings along; none is executed.
"""

from __future__ import annotations

import ast
import functools
import random
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUBJECTS = {  # module: its source, a file or a folder in the standard library
    "asyncio": "asyncio",
    "decimal": "_pydecimal.py",
    "difflib": "difflib.py",
    "email": "email",
    "http": "http",
    "importlib": "importlib",
    "ipaddress": "ipaddress.py",
    "logging": "logging",
    "statistics": "statistics.py",
    "turtle": "turtle.py",
    "unittest": "unittest",
    "xml": "xml",
}
MOST = 220  # sentences of a module, so that no module outweighs the others
TEST_SHARE = 0.2
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Sentences:
    """Sentences and, for each, the number of its module in `SUBJECTS`."""

    texts: list[str]
    labels: list[int]


def docstrings(source: Path) -> Iterator[str]:
    """All docstrings of a file."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, DOCUMENTED):
            found = ast.get_docstring(node)
            if found:
                yield found


def sentences(text: str) -> Iterator[str]:
    """Sentences of 5 to 40 words, without examples."""
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split())):
            if 5 <= len(sentence.split()) <= 40 and ">>>" not in sentence:
                yield sentence


def about(module: str) -> list[str]:
    """All different sentences of a module's docstrings, sorted."""
    place = Path(sysconfig.get_path("stdlib")) / SUBJECTS[module]
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return sorted({each for file in files for text in docstrings(file) for each in sentences(text)})


@functools.cache
def load(seed: int) -> tuple[Sentences, Sentences]:
    """Training and test sentences, split at random by `seed`; the same in every process."""
    generator = random.Random(seed)
    training: list[tuple[str, int]] = []
    test: list[tuple[str, int]] = []
    for label, module in enumerate(SUBJECTS):
        found = about(module)
        generator.shuffle(found)
        found = found[:MOST]
        tests = int(len(found) * TEST_SHARE)
        test += [(text, label) for text in found[:tests]]
        training += [(text, label) for text in found[tests:]]
    generator.shuffle(training)
    return _unzip(training), _unzip(test)


def _unzip(pairs: list[tuple[str, int]]) -> Sentences:
    return Sentences([text for text, _ in pairs], [label for _, label in pairs])
