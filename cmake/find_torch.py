"""Prints where the installed torch is, without importing it: root, version, CUDA version or "", include folders.

One value a line; the fourth line is a CMake list. Exit status 1 and one clear line when torch is not installed.
"""

import importlib.util
import pathlib
import runpy
import sys


def main() -> int:
    """Finds torch as the running interpreter would import it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        print(f"torch is not installed for {sys.executable}; run ./install-dependencies.sh", file=sys.stderr)
        return 1
    root = pathlib.Path(spec.origin).parent
    version = runpy.run_path(str(root / "version.py"))
    includes = [root / "include", root / "include" / "torch" / "csrc" / "api" / "include"]
    if version.get("cuda"):
        major = version["cuda"].split(".")[0]
        wheels = root.parent / "nvidia"
        candidates = [wheels / f"cu{major}" / "include", wheels / "nccl" / "include"]
        includes += [folder for folder in candidates if folder.is_dir()]
    print(root, version["__version__"], version.get("cuda") or "", sep="\n")
    print(";".join(str(folder) for folder in includes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
