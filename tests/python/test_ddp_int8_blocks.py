"""The messages of int8_compress: what its codes say, and that the C++ kernels and the operations of torch agree."""

from __future__ import annotations

import math

import pytest
import torch

from ucxring import _C
from ucxring.ddp.hooks.blocks import Blocks, CpuBlocks, make_blocks

BLOCK = 64
LARGEST = torch.finfo(torch.float32).max
CPU = torch.device("cpu")
KINDS = [Blocks, CpuBlocks]
both_kinds = pytest.mark.parametrize("kind", KINDS)

COUNTS = [0, 1, BLOCK - 1, BLOCK, 7 * BLOCK, 30 * BLOCK + 5, 1001]
SIZES = [4, 36, BLOCK, 512]  # of blocks; of the whole vectors of no processor, of some, of all


def random(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed))


def wide(count: int, seed: int = 0) -> torch.Tensor:
    """Numbers of very different magnitudes, alike in each block."""
    return random(count, seed) * torch.logspace(-30, 30, 31).repeat_interleave(BLOCK)[:count]


def extremes(count: int) -> torch.Tensor:
    """Blocks of zeros, of denormal numbers, of huge ones, of ties, and of numbers that are not finite."""
    values = random(count, seed=5)
    blocks = values.split(BLOCK)
    contents = [0.0, 1e-45, -1e-38, 1e-36, 3e38, -LARGEST, LARGEST]
    for block, value in zip(blocks, contents, strict=False):
        block.fill_(value)
    for block, bad in zip(blocks[10:], [math.nan, math.inf, -math.inf], strict=False):
        block[5:6] = bad
    for block in blocks[14:15]:
        block.copy_((torch.arange(block.numel()) - 32) / 2)
        block[:1] = 127
    return values


def coded(kind: type[Blocks], values: torch.Tensor, rows: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """What a reader gets of `values`, and the error that encoding leaves."""
    blocks, error = kind(values.numel(), rows, BLOCK, CPU), values.clone()
    message = blocks.new_message().fill_(77)
    blocks.encode(error, message)
    decoded = torch.full_like(values, 55)
    blocks.decode(message, decoded)
    return decoded, error


@both_kinds
@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize("count", COUNTS)
def test_codes_are_off_by_half_a_step_at_most(count: int, rows: int, kind: type[Blocks]) -> None:
    values = wide(count)
    decoded, error = coded(kind, values, rows)
    padded = torch.nn.functional.pad(values, (0, -count % BLOCK)).view(-1, BLOCK)
    steps = padded.abs().amax(1, keepdim=True).expand_as(padded).reshape(-1)[:count] / 127
    assert ((decoded - values).abs() <= 0.5001 * steps).all()
    assert torch.equal(error, values - decoded)
    assert count <= 1 or not torch.equal(decoded, values)


@both_kinds
@pytest.mark.parametrize("value", [0.0, 1e-45, -1e-38, 1e-36, 1.0, -3e38])
def test_codes_of_extremes(value: float, kind: type[Blocks]) -> None:
    decoded, error = coded(kind, torch.full((BLOCK,), value))
    torch.testing.assert_close(decoded, torch.full((BLOCK,), value), rtol=1e-6, atol=1e-36)
    assert error.isfinite().all()


@both_kinds
@pytest.mark.parametrize("at", [0, 5, BLOCK - 1])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_codes_of_what_is_not_finite(bad: float, at: int, kind: type[Blocks]) -> None:
    values = random(3 * BLOCK)
    values[BLOCK + at] = bad
    decoded = coded(kind, values)[0].view(3, BLOCK)
    assert decoded[1].isnan().all()
    assert decoded[::2].isfinite().all()


def assert_same_bits(left: torch.Tensor, right: torch.Tensor, where: torch.Tensor | None = None) -> None:
    """Equal, with NaN equal to NaN and 0 not to -0, `where` that is true."""
    if where is not None:
        left, right = left[where], right[where]
    torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(left.signbit() & ~left.isnan(), right.signbit() & ~right.isnan())


@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("make", [random, wide, extremes])
def test_kernels_do_what_torch_does(make, count: int, size: int, rows: int, feedback: bool) -> None:
    """Bit for bit, through a whole exchange; only the errors of blocks that are not finite are nobody's."""
    results = [exchange(kind, make(count), size, rows, feedback) for kind in KINDS]
    for (expected, matters), (found, _) in zip(*results, strict=True):
        assert_same_bits(expected, found, matters)


def exchange(kind: type[Blocks], values: torch.Tensor, size: int, rows: int, feedback: bool) -> list:
    """What all steps leave, each with a mask of what matters."""
    blocks = kind(values.numel(), rows, size, CPU)
    message, averages = blocks.new_message().fill_(77), blocks.new_message(rows=1).fill_(77)
    added = random(blocks.count, seed=1) if feedback else None
    blocks.encode(values, message, added)
    results = [(blocks.codes(message), None), (blocks.scales(message), None)]
    results += [(values, in_finite_blocks(blocks, message, blocks.count))]
    total, more = torch.full((blocks.length,), 55.0), random(blocks.length, seed=2) if feedback else None
    blocks.average(message, total, averages, more)
    results += [(blocks.codes(averages), None), (blocks.scales(averages), None)]
    results += [(total, in_finite_blocks(blocks, averages, blocks.length))]
    kept, decoded = torch.full((blocks.count,), 33.0), torch.full((blocks.count,), 44.0)
    blocks.decode(message, decoded, kept if feedback else None)
    return [*results, (decoded, None), (kept, None)]


def in_finite_blocks(blocks: Blocks, message: torch.Tensor, count: int) -> torch.Tensor:
    return blocks.scales(message).flatten().isfinite().repeat_interleave(blocks.size)[:count]


@both_kinds
@pytest.mark.parametrize("rows", [1, 3])
def test_average_of_rows(rows: int, kind: type[Blocks]) -> None:
    blocks = kind(10 * BLOCK + 3, rows, BLOCK, CPU)
    message, values = blocks.new_message(), random(blocks.count)
    blocks.encode(values, message)
    numbers = torch.empty(rows * blocks.length)
    kind(numbers.numel(), rows, BLOCK, CPU).decode(message, numbers)
    total, averages, added = torch.empty(blocks.length), blocks.new_message(rows=1), random(blocks.length, seed=1)
    blocks.average(message, total, averages, added)
    decoded = torch.empty(blocks.length)
    kind(blocks.length, 1, BLOCK, CPU).decode(averages, decoded)
    torch.testing.assert_close(decoded + total, numbers.view(rows, -1).mean(0) + added, rtol=1e-5, atol=1e-6)
    assert total.abs().max() > 1e-3  # something was rounded away


@both_kinds
@pytest.mark.parametrize("bad", [None, math.nan, math.inf])
def test_what_was_there_is_kept_if_all_is_finite(bad: float | None, kind: type[Blocks]) -> None:
    blocks = kind(5 * BLOCK, 2, BLOCK, CPU)
    values, message = random(blocks.count), blocks.new_message()
    if bad is not None:
        values[-1] = bad
    blocks.encode(values, message)
    before, kept = random(blocks.count, seed=1), torch.zeros(blocks.count)
    values.copy_(before)
    blocks.decode(message, values, kept)
    assert torch.equal(kept, before if bad is None else torch.zeros(blocks.count))
    assert not torch.equal(values, before)


def test_threads_change_nothing() -> None:
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append(exchange(CpuBlocks, random(300_001), 512, 2, feedback=True))
    finally:
        torch.set_num_threads(before)
    for (one, _), (three, _) in zip(*results, strict=True):
        assert torch.equal(one, three)


def test_the_cpu_has_kernels() -> None:
    assert type(make_blocks(100, 2, BLOCK, CPU)) is CpuBlocks
    assert type(make_blocks(100, 2, BLOCK, torch.device("meta"))) is Blocks


def test_wrong_tensors() -> None:
    """Kernels that trusted their arguments would write behind them."""
    blocks = CpuBlocks(2 * BLOCK, 1, BLOCK, CPU)
    message, values = blocks.new_message(), random(blocks.count)
    wrong = [
        ((values.double(), None, message, BLOCK), "float32"),
        ((random(4 * BLOCK)[::2], None, message, BLOCK), "contiguous"),
        ((random(2 * BLOCK + 1), None, message, BLOCK), "at most 128"),
        ((values, random(5), message, BLOCK), "expected 128 numbers, not 5"),
        ((values, None, message[:, 1:], BLOCK), "whole blocks"),
        ((values, None, message.view(torch.uint8), BLOCK), "int8"),
        ((values, None, message, 0), "multiple of 4"),
        ((values, None, message, 6), "multiple of 4"),
    ]
    for arguments, text in wrong:
        with pytest.raises(RuntimeError, match=text):
            _C.encode_int8_blocks(*arguments)
    with pytest.raises(RuntimeError, match="one row"):
        _C.average_int8_blocks(message, 1.0, values, None, CpuBlocks(BLOCK, 1, BLOCK, CPU).new_message(), BLOCK)
