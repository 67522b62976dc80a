"""The tables of docs/compatibility.md say what ucxring does now."""

from __future__ import annotations

import compatibility


def test_the_tables_are_up_to_date() -> None:
    works, said = compatibility.measured("ucxring"), compatibility.written()
    assert works == said, (
        "write the page again with python tests/python/compatibility.py; "
        f"works but is not said: {sorted(works - said)}; is said but does not work: {sorted(said - works)}"
    )


def test_the_page_names_the_tests_that_cannot_run() -> None:
    page = compatibility.PAGE.read_text()
    for name, reason in compatibility.CANNOT.items():
        assert name in page, name
        assert reason in page, reason
