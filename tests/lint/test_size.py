"""Files and functions stay short enough to be read at once."""

import lizard

from project import CPP_SUFFIXES, ROOT, project_files, read

MAX_FILE_LINES = 350
MAX_FUNCTION_LINES = 60
SOURCE_SUFFIXES = (*CPP_SUFFIXES, ".py", ".sh", ".cmake")


def test_files_are_short() -> None:
    lengths = {path: len(read(path).splitlines()) for path in project_files(*SOURCE_SUFFIXES)}
    too_long = [f"{path}: {lines} lines" for path, lines in lengths.items() if lines > MAX_FILE_LINES]
    assert lengths
    assert not too_long, "\n".join(too_long)


def test_functions_are_short() -> None:
    sources = [str(ROOT / path) for path in project_files(*CPP_SUFFIXES, ".py")]
    functions = [f for source in lizard.analyze_files(sources, exts=[]) for f in source.function_list]
    too_long = [f"{f.filename}:{f.start_line} {f.name}: {f.length}" for f in functions if f.length > MAX_FUNCTION_LINES]
    assert functions
    assert not too_long, "\n".join(too_long)
