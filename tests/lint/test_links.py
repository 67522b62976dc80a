"""Links in the documentation lead to files that exist."""

import re
from pathlib import Path

import pytest

from project import ROOT, project_files, read

LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(?:#[^)]*)?\)")


def dead_links(page: str, text: str, root: Path) -> list[str]:
    """Relative links in `text`, the page at `page`, that lead nowhere."""
    folder = (root / page).parent
    return [f"{page}: {target}" for target in LINK.findall(text) if not (folder / target).exists()]


@pytest.mark.parametrize(
    ("text", "dead"),
    [("[a](there.md#part)", 0), ("[a](https://ucx.example/x)", 0), ("[a](#part)", 0), ("[a](gone.md)", 1)],
)
def test_a_dead_link_is_found(text: str, dead: int, tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("")
    assert len(dead_links("page.md", text, tmp_path)) == dead


def test_links_lead_somewhere() -> None:
    pages = project_files(".md")
    found = [link for page in pages for link in dead_links(str(page), read(page), ROOT)]
    assert pages
    assert not found, "\n".join(found)
