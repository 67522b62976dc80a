"""ucxring.Options, the settings table and the environment variables."""

from __future__ import annotations

import copy
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from harness import run

import ucxring


def test_attributes_are_the_table() -> None:
    table = ucxring.settings()
    assert len(table) >= 10
    options = ucxring.Options()
    types = {"bool": bool, "integer": int, "bytes": int, "microseconds": int, "text": str, "choice": str}
    for setting in table:
        assert isinstance(getattr(options, setting.name), types[setting.type]), setting
        assert setting.help
        assert setting.allowed
        assert setting.variable == f"UCXRING_{setting.name.upper()}"
        setattr(options, setting.name, setting.default)
    assert set(ucxring.Options.__annotations__ if hasattr(ucxring.Options, "__annotations__") else ()) == set()


def test_values_of_every_type() -> None:
    options = ucxring.Options(slice_bytes="256Ki", lanes=4, progress_thread=False, spin_us=10, log_level="error")
    assert options.slice_bytes == 256 * 1024
    assert options.lanes == 4
    assert options.progress_thread is False
    assert options.spin_us == 10
    assert options.log_level == "error"
    options.slice_bytes = 8192
    options.progress_thread = True
    assert options.slice_bytes == 8192
    assert options.progress_thread is True


def test_timeout() -> None:
    options = ucxring.Options()
    assert not options.has_timeout
    options.timeout = timedelta(seconds=7)
    assert options.has_timeout
    assert options.timeout == timedelta(seconds=7)
    assert ucxring.Options(timeout=timedelta(seconds=3)).timeout == timedelta(seconds=3)
    with pytest.raises(ValueError, match="positive"):
        options.timeout = timedelta(0)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("lanes", 1000, "LANES.*allowed"),
        ("lanes", "many", "LANES.*allowed"),
        ("slice_bytes", 5, "SLICE_BYTES.*4Ki"),
        ("log_level", "loud", "LOG_LEVEL.*warning"),
        ("progress_thread", "maybe", "PROGRESS_THREAD"),
        ("algorithm", "all_reduce:x", 'no algorithm "x" for all_reduce'),
    ],
)
def test_wrong_values(name: str, value: object, message: str) -> None:
    options = ucxring.Options()
    before = getattr(options, name)
    with pytest.raises(ValueError, match=message):
        setattr(options, name, value)
    with pytest.raises(ValueError, match=message):
        ucxring.Options(**{name: value})
    assert getattr(options, name) == before


def test_wrong_names_and_types() -> None:
    with pytest.raises(ValueError, match="did you mean UCXRING_LANES"):
        ucxring.Options(lane=4)
    with pytest.raises(AttributeError, match="lane"):
        ucxring.Options().lane = 4
    with pytest.raises(TypeError, match=r"lanes takes.*not float"):
        ucxring.Options(lanes=1.5)


def test_copies_are_independent() -> None:
    options = ucxring.Options(lanes=4, timeout=timedelta(seconds=9))
    for other in (copy.copy(options), copy.deepcopy(options), options.copy()):
        assert other.lanes == 4
        assert other.timeout == timedelta(seconds=9)
        other.lanes = 5
        assert options.lanes == 4


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UCXRING_LANES", "3")
    assert ucxring.Options().lanes == 3
    assert ucxring.Options(lanes=2).lanes == 2
    monkeypatch.setenv("UCXRING_LANES", "-3")
    with pytest.raises(ValueError, match='UCXRING_LANES="-3"'):
        ucxring.Options()
    monkeypatch.delenv("UCXRING_LANES")
    monkeypatch.setenv("UCXRING_LANE", "3")
    with pytest.raises(ValueError, match="did you mean UCXRING_LANES"):
        ucxring.Options()


def with_options(rank: int, world_size: int) -> None:
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.options.slice_bytes == 64 * 1024
    assert backend.options.timeout == timedelta(seconds=5)
    assert backend.options.group_name == "world"
    assert backend.transport == "shm"
    assert backend.name() == "ucxring"
    assert dist.get_backend() == "ucxring"
    assert copy.deepcopy(backend.options).lanes == 2
    tensor = torch.ones(500_000)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full_like(tensor, float(world_size)))
    with pytest.raises(TypeError, match=r"ucxring\.Options"):
        dist.new_group(backend="ucxring", pg_options=dist.ProcessGroupGloo._Options())


def test_options_reach_the_group() -> None:
    options = {"slice_bytes": "64Ki", "lanes": 2, "algorithm": "all_reduce:ring", "timeout": timedelta(seconds=5)}
    run(with_options, 2, options=options)


def refuse(rank: int, world_size: int) -> None:
    with pytest.raises(ValueError, match=r"UCXRING_ALGORITHM.*teleport.*known: .*ring"):
        dist.new_group(pg_options=ucxring.Options(algorithm="all_reduce:teleport"))


def test_wrong_algorithm_is_refused_at_init() -> None:
    run(refuse, 2)
