"""The example as a user starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ucxring.examples import digits, digits_data


def torchrun(ranks: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += ["-m", "ucxring.examples.digits", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize("ranks", [2, 3])
def test_losses_are_those_of_one_process(ranks: int, tmp_path: Path) -> None:
    together, alone = tmp_path / "together.json", tmp_path / "alone.json"
    done = torchrun(ranks, "--epochs", "1", "--batch", "63", "--output", str(together))
    assert done.returncode == 0, done.stderr
    assert "replicas bit-identical: yes" in done.stdout
    assert "epoch 1/1" in done.stdout
    assert digits.main(["--epochs=1", "--batch=63", f"--as-ranks={ranks}", f"--output={alone}"]) == 0
    left, right = (json.loads(file.read_text())["step_losses"] for file in (together, alone))
    assert len(left) > 10
    assert left == pytest.approx(right, abs=1e-5)


def test_union_batches_hold_what_the_ranks_take() -> None:
    data, _ = digits_data.load(seed=0)
    settings = digits.Settings(as_ranks=2, batch=64)
    first = next(digits.union_batches(data, settings)(3))
    own = digits.sampler(data, 1, 2, settings.seed)
    own.set_epoch(3)
    indices = list(own)[:32]
    assert torch.equal(first[1][32:], data.tensors[1][indices])


def test_training_is_the_same_from_run_to_run() -> None:
    settings = digits.Settings(epochs=1, as_ranks=2)
    assert digits.run(settings).parameter_hashes == digits.run(settings).parameter_hashes


@pytest.mark.parametrize(("steps", "epochs"), [(3, 1), (24, 2)])
def test_steps_end_the_training(steps: int, epochs: int) -> None:
    result = digits.run(digits.Settings(steps=steps))
    assert (len(result.step_losses), len(result.epoch_losses)) == (steps, epochs)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--epochs", "0"], "at least 1"),
        (["--steps", "0"], "--steps must be at least 1"),
        (["--batch", "1", "--as-ranks", "2"], "ranks (2)"),
    ],
)
def test_bad_arguments(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        digits.main(arguments)
    assert complaint in capsys.readouterr().err
