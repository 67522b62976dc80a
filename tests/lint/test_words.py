"""Words that shipped files do not hold: postponed work and places that only one machine has.

The patterns are written with character classes so that they do not find themselves.
"""

import re

import pytest

from project import project_files, read

FORBIDDEN = {
    r"\b(T[O]DO|FIX[M]E|XX[X])\b": "unfinished work belongs into an issue",
    r"\.\./share[d]|/wor[k]/": "a path outside the repository",
    r"p[y]pi\.org|p[y]thonhosted\.|d[e]bian\.org|download\.p[y]torch": "a registry's host",
}
BINARY_SUFFIXES = (".png", ".gz", ".bin")


def findings(path: str, text: str) -> list[str]:
    """Every forbidden word in `text` with its line number."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        found += [f"{path}:{number}: {why}: {line.strip()}" for word, why in FORBIDDEN.items() if re.search(word, line)]
    return found


@pytest.mark.parametrize("text", ["// TO" + "DO later", "see .." + "/shared/a.md", "https://py" + "pi.org/simple"])
def test_a_forbidden_word_is_found(text: str) -> None:
    assert len(findings("a", text)) == 1


def test_no_forbidden_words() -> None:
    paths = [path for path in project_files() if path.suffix not in BINARY_SUFFIXES and "corpus" not in path.parts]
    found = [line for path in paths for line in findings(str(path), read(path))]
    assert not found, "\n".join(found)
