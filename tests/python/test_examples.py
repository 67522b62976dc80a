"""The examples on two ranks, a few steps each."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import harness
import pytest
import torch

from ucxring.examples import char_gpt, minilm, minilm_data, minilm_model
from ucxring.examples.word_pieces import WordPieces

STEPS = 12
WATCHDOG_S = 200.0  # on a machine with much else to do
SMALL = minilm_model.Shape(width=64, inner=128, layers=1, heads=2)


@pytest.fixture(scope="module")
def model_folder() -> Path:
    try:
        return minilm_model.folder()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


def train_gpt(_rank: int, _world_size: int, wrappers: list[str]) -> list[char_gpt.Result]:
    return [char_gpt.run(char_gpt.Settings(wrapper=each, steps=STEPS, batch=8, write=20)) for each in wrappers]


def test_char_gpt_trains_on_two_ranks_as_on_one() -> None:
    (together, torchs), (other, _) = harness.run(train_gpt, 2, ["ucxring", "torch"], watchdog_s=WATCHDOG_S)
    ((alone,),) = harness.run(train_gpt, 1, ["ucxring"], watchdog_s=WATCHDOG_S)
    assert len(set(together.parameter_hashes)) == 1
    assert together.parameter_hashes == other.parameter_hashes
    assert together.step_losses == other.step_losses
    assert len(together.step_losses) == STEPS
    assert together.step_losses == pytest.approx(alone.step_losses, abs=1e-4)
    assert together.step_losses == pytest.approx(torchs.step_losses, abs=1e-4)
    assert together.loss_after < together.loss_before - 0.5
    assert len(together.sample) == 20


def test_char_gpt_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "result.json"
    assert char_gpt.main(["--steps=2", "--batch=4", "--write=20", "--backend=gloo", f"--output={file}"]) == 0
    shown = capsys.readouterr().out
    assert "char GPT: step 2/2 loss" in shown
    assert "characters/s" in shown
    assert len(json.loads(file.read_text())["step_losses"]) == 2


@pytest.mark.parametrize("module", [char_gpt, minilm])
def test_a_batch_that_does_not_split(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        module.main(["--batch=7", "--micro-batches=2"])
    assert "multiple of ranks × micro-batches (2)" in capsys.readouterr().err


TRAININGS = {
    "ucxring": minilm.Settings(steps=30, batch=64, learning_rate=2e-2),
    "torch": minilm.Settings(wrapper="torch", steps=30, batch=64, learning_rate=2e-2),
    "whole": minilm.Settings(hook="none", steps=3, batch=16, micro_batches=1),
    "split": minilm.Settings(hook="none", steps=3, batch=16, micro_batches=4),
    "narrow": minilm.Settings(hook="bf16", steps=3, batch=16),
}


def fine_tune(_rank: int, _world_size: int, picture: Path) -> dict[str, minilm.Result]:
    results = {}
    for name, settings in TRAININGS.items():
        torch.manual_seed(1)
        drawn = picture if name == "split" else None
        results[name] = minilm.run(replace(settings, picture=drawn), minilm_model.Encoder(SMALL))
    return results


@pytest.fixture(scope="module")
def trainings(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, minilm.Result]]:
    """Of both ranks. The encoder is small and knows nothing: the pretrained one takes more time than a test has."""
    picture = tmp_path_factory.mktemp("pictures") / "step.svg"
    found: list[dict[str, minilm.Result]] = harness.run(fine_tune, 2, picture, watchdog_s=WATCHDOG_S)
    assert picture.read_text().lstrip().startswith("<?xml")
    return found


@pytest.mark.parametrize("wrapper", ["ucxring", "torch"])
def test_fine_tuning_learns(wrapper: str, trainings: list[dict[str, minilm.Result]]) -> None:
    first, second = (results[wrapper] for results in trainings)
    assert len(set(first.parameter_hashes)) == 1
    assert first.step_losses == second.step_losses
    assert sum(first.step_losses[-3:]) < 0.8 * sum(first.step_losses[:3])
    assert first.accuracy_after > first.accuracy_before + 0.3
    assert first.exposed_seconds > 0


def test_micro_batches_change_nothing_and_bfloat16_little(trainings: list[dict[str, minilm.Result]]) -> None:
    whole, split, narrow = (trainings[0][name].step_losses for name in ("whole", "split", "narrow"))
    assert split == pytest.approx(whole, abs=1e-4)
    assert narrow == pytest.approx(whole, abs=2e-2)
    assert narrow[0] == pytest.approx(whole[0], abs=1e-5)  # before the first update
    assert narrow[1:] != whole[1:]


def test_encoder_gives_the_known_vectors(model_folder: Path) -> None:
    pieces = WordPieces(model_folder / "vocab.txt")
    text = "The median of an even number of values is the mean of the middle two."
    tokens = pieces.batch([text, "A longer sentence makes padding, which changes nothing: see the numbers." * 2], 64)
    numbers = [101, 1996, 3991, 1997, 2019, 2130, 2193, 1997, 5300, 2003, 1996, 2812, 1997, 1996, 2690, 2048, 1012, 102]
    assert tokens[0].tolist() == numbers + [0] * (tokens.shape[1] - len(numbers))
    with torch.no_grad():
        vectors = minilm_model.pretrained()(tokens)
    # From BertModel of transformers 5.24.0 on the same files, the mean over tokens.
    known = [0.1553507, -0.0510539, 0.0195145, 0.0291719, -0.2083352, -0.0968328]
    assert vectors[0, :6].tolist() == pytest.approx(known, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Don't re-tokenize!", ["don", "'", "t", "re", "-", "token", "##ize", "!"]),
        ("Café\x00 OLÉ", ["cafe", "ole"]),
        ("東京", ["東", "京"]),
        ("x" * 101, ["[UNK]"]),
        (" \t\n", []),
    ],
)
def test_words_become_pieces(text: str, pieces: list[str], model_folder: Path) -> None:
    names = (model_folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    found = WordPieces(model_folder / "vocab.txt").encode(text, 512)
    assert [names[number] for number in found] == ["[CLS]", *pieces, "[SEP]"]


def test_sentences_are_apart() -> None:
    training, test = minilm_data.load(seed=0)
    assert len(training.texts) > 1500
    assert len(set(test.labels)) == len(minilm_data.SUBJECTS)
    shared = set(zip(training.texts, training.labels, strict=True)) & set(zip(test.texts, test.labels, strict=True))
    assert not shared
    assert minilm_data.load(seed=0)[0].texts == training.texts
