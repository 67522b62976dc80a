"""Writes the metadata of the Python package into the build tree, so that torch finds its entry points there.

usage: stage_metadata.py PYPROJECT OUTPUT_FOLDER
"""

import pathlib
import sys
import tomllib


def main(pyproject: str, output: str) -> None:
    """Makes OUTPUT_FOLDER/<name>-<version>.dist-info with METADATA and entry_points.txt."""
    project = tomllib.loads(pathlib.Path(pyproject).read_text())["project"]
    folder = pathlib.Path(output) / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (folder / "METADATA").write_text(metadata)
    groups = {"console_scripts": project.get("scripts", {}), **project.get("entry-points", {})}
    lines = []
    for group, entries in groups.items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {target}" for name, target in entries.items()]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
