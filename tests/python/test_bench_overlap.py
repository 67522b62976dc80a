"""`ucxring bench overlap`: its kinds of step, its arithmetic, and runs that are too short to measure anything."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import harness
import pytest
import torch
from torch import Tensor, nn

from ucxring import cli
from ucxring.bench import pages
from ucxring.bench.overlap import report, run, system, tasks, worker
from ucxring.bench.overlap.plan import Plan, parse_system
from ucxring.bench.overlap.ready_made import ReadyMade
from ucxring.examples import minilm_data, minilm_model

WATCHDOG_S = 200.0  # on a machine with much else to do
SMALL = minilm_model.Shape(width=64, inner=128, layers=1, heads=2)
WRAPPED = ["ucxring/ucxring", "ucxring/ucxring/bf16", "ucxring/ucxring/int8", "torch/ucxring", "torch-view/gloo"]


@pytest.mark.parametrize("text", ["torch", "other/gloo", "torch/gloo/zip", "torch/gloo/bf16/x", "plain/gloo"])
def test_systems_that_do_not_exist(text: str) -> None:
    with pytest.raises(ValueError, match="a system is WRAPPER/BACKEND"):
        parse_system(text)


@pytest.mark.parametrize("text", ["plain", "torch/gloo", "ucxring/ucxring/int8"])
def test_names_of_systems(text: str) -> None:
    assert str(parse_system(text)) == text


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--systems", "plain,torch/gloo"], "goes with --ranks 1"),
        (["--systems", "ring/gloo"], "a system is WRAPPER/BACKEND"),
        (["--batch", "7", "--micro-batches", "2"], "multiple of --micro-batches"),
        (["--model", "minilm", "--megabytes", "5"], "goes with --model layers"),
        (["--rate", "1gbit"], "give --namespaces N too"),
        (["--sizes", "4"], "--sizes does not go with overlap"),
    ],
)
def test_bad_arguments_are_explained(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["bench", "overlap", *words])
    assert complaint in capsys.readouterr().err


def test_gradients_are_handed_over_as_they_are() -> None:
    """In the order in which backward computes them, and without a copy that would take time."""
    torch.manual_seed(0)
    model = ReadyMade(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)))
    named = list(model.named_parameters())
    came: list[tuple[str, int]] = []
    for name, each in named:
        each.register_hook(lambda gradient, name=name: came.append((name, gradient.data_ptr())))
    model(None).backward()
    assert [name for name, _ in came] == [name for name, _ in reversed(named)]
    addresses = dict(came)
    for name, each in named:
        assert each.grad is not None
        assert torch.equal(each.grad, each)
        assert each.grad.data_ptr() == addresses[name] != each.data_ptr()


def test_frozen_parameters_get_no_gradient() -> None:
    model = ReadyMade(nn.Linear(3, 4))
    model.network.bias.requires_grad_(False)
    model(None).backward()
    assert model.network.bias.grad is None
    assert model.network.weight.grad is not None


def test_layers_have_the_bytes_that_were_asked_for() -> None:
    assert tasks.gradient_bytes(tasks.layers(13)) == 3 * 4 * tasks.WIDTH * (tasks.WIDTH + 1)
    assert tasks.gradient_bytes(tasks.layers(1)) == 4 * tasks.WIDTH * (tasks.WIDTH + 1)


def both_kinds_of_step(rank: int, _world_size: int, name: str) -> tuple[list[Tensor], list[Tensor]]:
    """The gradients of a step without computing, and the parameters after a step of training."""
    torch.manual_seed(0)
    own = system.System(parse_system(name), nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)))
    parameters = list(own.model.parameters())
    assert own.communication() > 0
    assert all(each.grad is None for each in parameters)
    own.model(None).backward()
    handed_over = [each.grad.clone() for each in parameters if each.grad is not None]
    own.optimizer.zero_grad()
    batch = (torch.full((2, 5), float(rank + 1)), torch.tensor([rank, 2]))
    before = [each.detach().clone() for each in parameters]
    own.step([batch], communicate=False)
    assert all(torch.equal(each, old) for each, old in zip(parameters, before, strict=True))
    step = own.step([batch], communicate=True)
    assert 0 < step.passes < step.whole
    assert not any(torch.equal(each, old) for each, old in zip(parameters, before, strict=True))
    return handed_over, [each.detach() for each in parameters]


@pytest.mark.parametrize("name", ["ucxring/ucxring", "torch/gloo"])
def test_a_step_without_computing_averages_all_gradients(name: str) -> None:
    first, second = harness.run(both_kinds_of_step, 2, name, watchdog_s=WATCHDOG_S)
    torch.manual_seed(0)
    expected = list(nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)).parameters())
    for handed_over, _ in (first, second):
        assert all(torch.equal(each, value) for each, value in zip(handed_over, expected, strict=True))
    assert all(torch.equal(one, other) for one, other in zip(first[1], second[1], strict=True))


def sample(compute: float, communication: float, step: float) -> dict[str, float]:
    return asdict(worker.Sample(compute, communication, step, step + 1, 1.0, 1.0, 1.0))


ROUNDS = [
    [sample(10, 8, 12), sample(10, 4, 11)],
    [sample(12, 8, 15), sample(12, 2, 12)],
    [sample(11, 9, 14), sample(11, 3, 14)],
]
PLAN = Plan(["ucxring/ucxring", "torch/gloo"], rounds=3)
ANSWER = {"batch": 16, "gradient_bytes": 104_000_000, "differences": [0.0, 1e-7], "rounds": ROUNDS}


def test_medians_and_ratios() -> None:
    found = report.record(PLAN, {}, ANSWER)
    own, other = found["overlap"].values()
    assert (own["compute"], own["communication"], own["step"], own["exposed"]) == (11, 8, 14, 3)
    assert own["share"] == pytest.approx(14 / 19)
    assert other["exposed"] == 1
    over = found["ratios"]["torch/gloo"]
    assert over["communication"] == pytest.approx(1 / 3)  # of 1/2, 1/4 and 1/3
    assert over["step"] == pytest.approx(11 / 12)  # of 11/12, 12/15 and 1
    assert over["exposed"] == pytest.approx(1 / 3)


def test_the_documentation_gets_a_table() -> None:
    about = {"processor": "Abacus", "cores": 2, "torch": "2.13", "time": "2026-12-01T00", "command": "ucxring bench x"}
    text = pages.markdown("x", report.record(PLAN, dict(about), ANSWER), "results")
    assert "| ucxring/ucxring | 11000.0 | 8000.0 | 14000.0 | 0.74 | 3000.0 | – | – | – |" in text
    assert "| torch/gloo | 11000.0 | 3000.0 | 12000.0 | 0.86 | 1000.0 | 0.333 | 0.917 | 0.333 |" in text


def test_gradients_that_differ_are_noticed() -> None:
    names = ["torch/gloo", "ucxring/gloo"]
    assert run.wrong(Plan(names), [0.0, 1e-3]) == ["ucxring/gloo"]
    assert run.wrong(Plan(names), [0.0, float("nan")]) == ["ucxring/gloo"]
    assert run.wrong(Plan([*names, "ucxring/gloo/int8"]), [0.0, 1e-7, 1e-2]) == []


def overlap(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ucxring", "bench", "overlap", "--megabytes", "1", "--rounds", "1", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=WATCHDOG_S, check=False)


def test_a_run_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    done = overlap("--systems", ",".join(WRAPPED), "--batch", "4", "--micro-batches", "2", "--json", str(file))
    assert done.returncode == 0, done.stderr
    assert "over ucxring/ucxring" in done.stdout
    record: dict[str, Any] = json.loads(file.read_text())
    assert list(record["overlap"]) == WRAPPED
    assert record["batch"] == 4
    assert 0 < record["differences"]["ucxring/ucxring/int8"] < run.COMPRESSED
    for name, each in record["overlap"].items():
        assert min(each["compute"], each["communication"], each["step"]) > 0
        assert (each["own_reducing"] > 0) == name.startswith("ucxring/")
    assert str(tmp_path) not in file.read_text()


def test_one_rank_beside_the_plain_module(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    done = overlap("--ranks", "1", "--systems", "plain,ucxring/ucxring,torch/ucxring", "--json", str(file))
    assert done.returncode == 0, done.stderr
    record = json.loads(file.read_text())
    assert record["batch"] > 0
    assert set(record["ratios"]) == {"ucxring/ucxring", "torch/ucxring"}


def fine_tune(_rank: int, _world_size: int) -> dict[str, Any]:
    plan = Plan(["ucxring/ucxring", "torch/ucxring"], model="minilm", rounds=1, batch=4, micro_batches=2)
    network = minilm_model.Classifier(minilm_model.Encoder(SMALL), len(minilm_data.SUBJECTS))
    return asdict(worker.measure(plan, tasks.sentences(plan, network)))


def test_sentences() -> None:
    if problem := minilm_model.missing():
        pytest.skip(problem)
    answer, _ = harness.run(fine_tune, 2, watchdog_s=WATCHDOG_S)
    assert answer["batch"] == 4
    assert max(answer["differences"]) < run.EXACT
    assert all(each["after_last_gradient"] > 0 for each in answer["rounds"][0])
