"""docs/configuration.md says what the settings table in the code says."""

import os
import subprocess

from project import ROOT


def test_configuration_page_is_fresh() -> None:
    program = os.environ["UCXRING_PRINT_SETTINGS"]
    expected = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    actual = (ROOT / "docs" / "configuration.md").read_text()
    assert actual == expected, f"stale; write it again: {program} > docs/configuration.md"
