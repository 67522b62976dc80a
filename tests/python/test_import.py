"""How the package is found: by import, by entry points, and what it says when torch does not fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ucxring

PACKAGE = Path(ucxring.__file__).parent


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **env},
        check=False,
    )


def test_import_registers() -> None:
    result = python(
        "import ucxring, torch.distributed as dist\n"
        "assert dist.is_backend_available('ucxring')\n"
        "assert dist.Backend.backend_capability['ucxring'] == ['cpu', 'cuda']\n"
        "assert dist.Backend.default_device_backend_map['cpu'] == 'gloo'\n"
        "import sys; assert 'ucxring._C' not in sys.modules\n"
        "print(ucxring.__version__, ucxring.Options().lanes)",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(ucxring.__version__)
    assert result.stderr == ""


def test_torch_finds_it_by_itself() -> None:
    result = python("import torch, torch.distributed as dist; print(dist.is_backend_available('ucxring'))")
    assert result.stdout.strip() == "True", result.stderr
    assert result.stderr == ""


def test_both_entry_points_are_declared() -> None:
    from importlib.metadata import entry_points

    for group, name in (("torch.backends", "autoload"), ("torch.distributed.backends", "register")):
        found = [entry for entry in entry_points(group=group) if entry.name == "ucxring"]
        assert found, group
        assert found[0].value == f"ucxring._autoload:{name}"
        found[0].load()()


def copy_of_the_package(folder: Path, torch_version: str, cuda: str = "") -> str:
    """The package without its C++ side, as if built for another torch; returns its folder for PYTHONPATH."""
    copied = folder / "ucxring"
    copied.mkdir()
    for source in PACKAGE.glob("*.py"):
        (copied / source.name).write_text(source.read_text())
    (copied / "_build_info.py").write_text(
        f"VERSION = '0.1.0'\nTORCH_VERSION = '{torch_version}'\nTORCH_CUDA = '{cuda}'\n"
    )
    for metadata in PACKAGE.parent.glob("ucxring-*.dist-info"):
        (folder / metadata.name).mkdir()
        for source in metadata.iterdir():
            (folder / metadata.name / source.name).write_text(source.read_text())
    return str(folder)


@pytest.mark.parametrize("first", ["", "import torch\n"])
def test_another_torch_is_one_clear_line(tmp_path: Path, first: str) -> None:
    path = copy_of_the_package(tmp_path, "2.1.0+cpu")
    result = python(first + "import ucxring", PYTHONPATH=path)
    last = result.stderr.strip().splitlines()[-1]
    assert result.returncode == 1
    assert last.startswith("ImportError: ucxring 0.1.0 was built for torch 2.1.0+cpu")
    assert torch.__version__ in last
    assert "undefined symbol" not in result.stderr


def test_another_torch_does_not_break_import_torch(tmp_path: Path) -> None:
    path = copy_of_the_package(tmp_path, "2.1.0+cpu")
    result = python("import torch; print(torch.ones(2).sum().item())", PYTHONPATH=path)
    assert result.stdout.strip() == "2.0", result.stderr
    assert result.stderr == ""


@pytest.mark.skipif(torch.version.cuda is not None, reason="torch has CUDA here")
def test_a_cuda_build_on_a_torch_without_cuda(tmp_path: Path) -> None:
    path = copy_of_the_package(tmp_path, torch.__version__, cuda="13.0")
    result = python("import ucxring", PYTHONPATH=path)
    assert "has no CUDA" in result.stderr.strip().splitlines()[-1]


def test_no_torch_is_one_clear_line(tmp_path: Path) -> None:
    path = copy_of_the_package(tmp_path, torch.__version__)
    result = python(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch': raise ModuleNotFoundError('No module named torch', name='torch')\n"
        "sys.meta_path.insert(0, Hide())\n"
        "import ucxring",
        PYTHONPATH=path,
    )
    assert result.stderr.strip().splitlines()[-1].startswith("ImportError: ucxring 0.1.0 needs torch")


def test_every_public_name_is_there() -> None:
    for name in ucxring.__all__:
        assert getattr(ucxring, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = ucxring.nonsense
