"""The watch of DistributedDataParallel: each warning when it should come and not otherwise, figures, trace, picture."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ucxring.ddp.watch import DDPWarning, Limits, Watch
from ucxring.ddp.watch.drift import ParameterHashes, windows
from ucxring.ddp.watch.hashes import SAMPLES, batch_hash
from ucxring.ddp.watch.warner import warn


@dataclass
class Bucket:
    bytes: int
    started: float
    finished: float


@dataclass
class Timing:
    step: int
    forward: float
    backward: float
    computed: float
    finished: float
    buckets: list[Bucket] = field(default_factory=list)
    ranks: list[tuple[float, int, int]] = field(default_factory=list)


class Cluster:
    """Ranks of a training, each with its watch and its replica, under a clock of their own."""

    def __init__(self, world_size: int = 2, module: nn.Module | None = None, **limits: Any) -> None:
        self.now = 0.0
        self.step_number = 0
        self.messages: list[list[str]] = [[] for _ in range(world_size)]
        model = module or nn.Linear(4, 4)
        self.modules = [copy.deepcopy(model) for _ in range(world_size)]
        self.watches = [
            Watch(
                each, rank, world_size, limits=Limits(**limits), clock=lambda: self.now, warn=self.messages[rank].append
            )
            for rank, each in enumerate(self.modules)
        ]

    def step(
        self,
        work: Sequence[float] | float = 0.1,
        communication: float = 0.001,
        batches: Callable[[int, int], torch.Tensor] | None = None,
        micro_batches: int = 1,
    ) -> None:
        """One step: `work` seconds of each rank, then `communication` seconds that are not hidden."""
        own = [work] * len(self.watches) if isinstance(work, float) else list(work)
        batch = batches or (lambda rank, step: torch.full((3,), float(100 * step + rank)))
        begin = self.now
        hashes = []
        for rank, watch in enumerate(self.watches):
            for _ in range(micro_batches - 1):
                watch.forward_begins((torch.zeros(1),), {}, False)
            hashes.append(watch.forward_begins((batch(rank, self.step_number),), {}, True))
        end = begin + max(own) + communication
        table = [(seconds, *each) for seconds, each in zip(own, hashes, strict=True)]
        for rank, watch in enumerate(self.watches):
            computed = begin + own[rank]
            buckets = [Bucket(1000, computed - 0.01, end)]
            timing = Timing(self.step_number, begin, begin + own[rank] / 3, computed, end, buckets, table)
            watch.steps_finished([timing])
        self.now = end
        self.step_number += 1

    def warned(self, *texts: str) -> None:
        """Rank 0 warned once, with these texts, and nobody else."""
        assert [len(each) for each in self.messages] == [1] + [0] * (len(self.messages) - 1), self.messages
        for text in texts:
            assert text in self.messages[0][0]

    def silent(self) -> None:
        assert not any(self.messages), self.messages


def test_a_healthy_training_is_silent() -> None:
    cluster = Cluster(3)
    for step in range(250):
        cluster.step([0.1, 0.11, 0.1], communication=0.03)
        for module in cluster.modules:
            nn.init.constant_(module.weight, float(step))
    cluster.silent()


@pytest.mark.parametrize("equal_steps", [1, 2, 8])
def test_the_same_batch_on_two_ranks(equal_steps: int) -> None:
    cluster = Cluster(3)
    for _ in range(20):
        cluster.step(
            batches=lambda rank, step: torch.full((3,), float(10 * step + (rank if step >= equal_steps else rank // 2)))
        )
    if equal_steps == 1:
        cluster.silent()
    else:
        cluster.warned("ranks 0 and 1 train on the same batches", "DistributedSampler", "set_epoch")


def test_batches_are_compared_in_the_first_steps_only() -> None:
    cluster = Cluster(batch_steps=3)
    for _ in range(20):
        cluster.step(batches=lambda rank, step: torch.full((3,), float(10 * step + (rank if step < 3 else 0))))
    cluster.silent()
    assert cluster.watches[0].forward_begins((torch.ones(3),), {}, True)[0] == 0


def norms() -> nn.Module:
    return nn.Sequential(nn.Conv1d(2, 2, 1), nn.BatchNorm1d(2), nn.SyncBatchNorm(2), nn.InstanceNorm1d(2))


def test_batch_norm() -> None:
    Cluster(module=norms()).warned("BatchNorm is not synchronised: 1 normalise", "convert_sync_batchnorm")
    Cluster(1, norms()).silent()
    Cluster(module=norms().eval()).silent()
    Cluster(module=nn.SyncBatchNorm.convert_sync_batchnorm(norms())).silent()


class Many(nn.Module):
    """Large and small parameters of several types, one of them not contiguous."""

    def __init__(self) -> None:
        super().__init__()
        self.large = nn.Parameter(torch.randn(300, 301))
        self.halves = nn.Parameter(torch.randn(77, dtype=torch.bfloat16))
        self.odd = nn.Parameter(torch.randn(3, 5, 7)[:, 1:4])
        self.turned = nn.Parameter(torch.randn(4, 6).t())
        self.bytes = nn.Parameter(torch.arange(5, dtype=torch.uint8), requires_grad=False)
        self.pairs = nn.Parameter(torch.randn(3, dtype=torch.complex64))
        self.empty = nn.Parameter(torch.empty(0))
        self.later = nn.parameter.UninitializedParameter()


@pytest.mark.parametrize("name", ["large", "halves", "odd", "turned", "bytes", "pairs"])
def test_one_changed_element_is_found_within_the_promised_steps(name: str) -> None:
    cluster = Cluster(3, Many(), parameter_steps=20)
    for _ in range(45):
        cluster.step()
    cluster.silent()
    parameter = dict(cluster.modules[2].named_parameters())[name].data
    parameter[(-1,) * parameter.dim()] += 1
    for _ in range(20 + 1):
        cluster.step()
    cluster.warned("rank 2 differs from the others in the parameters", name, "checkpoint")
    for _ in range(50):
        cluster.step()
    cluster.warned()


def test_two_ranks_that_differ_and_parameters_that_may() -> None:
    for limits, ignored in (({}, False), ({"parameter_steps": 0}, False), ({}, True)):
        cluster = Cluster(2, nn.Linear(2, 2), **limits)
        cluster.modules[1].bias.data.add_(1)
        for watch in cluster.watches:
            watch.expects_equal_parameters &= not ignored
        for _ in range(101):
            cluster.step()
        if limits or ignored:
            cluster.silent()
        else:
            cluster.warned("ranks 0 and 1 differ in the parameters weight and bias")


def test_windows_cover_every_byte_once() -> None:
    named = [(name, each) for name, each in Many().named_parameters() if name not in ("empty", "later")]
    for most in (1, 3, 5, 100):
        parts = windows(Many().named_parameters(), most)
        assert len(parts) <= most
        covered: dict[str, int] = {}
        for window in parts:
            for name, (_, first, last) in zip(window.names, window.parts, strict=True):
                assert covered.get(name, 0) == first
                covered[name] = last
        assert covered == {name: each.nbytes for name, each in named}


def test_hashes_of_parameters_are_sparse_in_time() -> None:
    hashes = ParameterHashes(nn.Linear(4, 4).named_parameters(), 100)
    values = [hashes.value(step) for step in range(300)]
    assert sum(value != 0 for value in values) == 3
    assert len({*values} - {0}) == 1
    assert ParameterHashes([], 100).value(0) == 0


@pytest.mark.parametrize(("slow", "warns"), [(0.13, True), (0.12, False)])
def test_stragglers(slow: float, warns: bool) -> None:
    cluster = Cluster(4)
    for step in range(40):
        evaluates = 5.0 if step % 10 == 5 else 0.0
        cluster.step([0.1 + evaluates, 0.1, slow, 0.1])
    if warns:
        cluster.warned("rank 2 needs 130.0 ms per step, 1.30 times the others", "data loading")
    else:
        cluster.silent()


def test_a_straggler_of_microseconds_is_noise() -> None:
    cluster = Cluster()
    for _ in range(30):
        cluster.step([0.0010, 0.0019], communication=0.0)
    cluster.silent()


@pytest.mark.parametrize(
    ("communication", "micro_batches", "warns"), [(0.05, 1, True), (0.04, 1, False), (0.05, 8, False)]
)
def test_communication_that_dominates(communication: float, micro_batches: int, warns: bool) -> None:
    cluster = Cluster()
    for _ in range(30):
        cluster.step(communication=communication, micro_batches=micro_batches)
    if warns:
        cluster.warned(
            "takes 33% of each step (50.0 of 150.0 ms)", "steps=3) instead of 1 brings it to about 14%", "bf16"
        )
    else:
        cluster.silent()


def test_waiting_for_a_straggler_is_not_communication() -> None:
    cluster = Cluster(2, straggler=100.0)
    for _ in range(30):
        cluster.step([0.1, 0.3], communication=0.01)
    cluster.silent()
    report = cluster.watches[0].report()
    assert report.waiting == pytest.approx(0.2)
    assert report.exposed == pytest.approx(0.01)


def forwards(watch: Watch, count: int, synchronised: bool = True) -> None:
    for _ in range(count):
        watch.steps_finished([])
        watch.forward_begins((torch.ones(2),), {}, synchronised)


def test_forwards_without_backward() -> None:
    cluster = Cluster()
    forwards(cluster.watches[1], 3)
    cluster.silent()
    forwards(cluster.watches[1], 20)
    assert [len(each) for each in cluster.messages] == [0, 1]
    for text in ("rank 1 ran 3 forwards", "loss.backward()", "no_grad"):
        assert text in cluster.messages[1][0]


def test_forwards_that_need_no_backward() -> None:
    cluster = Cluster()
    for watch, module in zip(cluster.watches, cluster.modules, strict=True):
        with torch.no_grad():
            forwards(watch, 10)
        forwards(watch, 10, synchronised=False)
        module.eval()
        forwards(watch, 10)
        module.train()
    for _ in range(4):
        for watch in cluster.watches:
            forwards(watch, 2)
        cluster.step()
    cluster.silent()


def test_one_rank_hashes_nothing() -> None:
    cluster = Cluster(1)
    for _ in range(20):
        cluster.step(communication=1.0)
        assert cluster.watches[0].forward_begins((torch.ones(3),), {}, True) == (0, 0)
    cluster.silent()


def test_batch_hash() -> None:
    images = torch.zeros(64, 1, 28, 28)
    images[:, :, 10:18, 10:18] = torch.rand(64, 1, 8, 8)
    others = images.roll(1, 0)
    variants = [
        images,
        others,
        images.bfloat16(),
        images.to(torch.float8_e4m3fn),
        images.view(torch.complex64),
        images.to(torch.uint16),
        images.to_sparse(),
        images.view(64, -1),
        images.view(64, -1).t(),
        {"x": images, "y": [torch.ones(3)]},
        (images, 1),
        (images, 2),
        (images, "text"),
    ]
    hashes = [batch_hash((each,), {}) for each in variants]
    assert len(set(hashes)) == len(hashes)
    assert all(0 < each < 1 << 20 for each in hashes)
    assert hashes == [batch_hash((copy.deepcopy(each),), {}) for each in variants]
    assert batch_hash((), {"x": images}) == hashes[0]
    assert batch_hash((3, "text", None), {}) == 0
    for strange in (torch.empty(0), torch.empty(3, device="meta"), torch.tensor(1.0)):
        assert batch_hash((strange,), {}) != 0


def test_batches_that_are_nearly_empty_are_told_apart() -> None:
    one, other = torch.zeros(50, 50_000, dtype=torch.int32), torch.zeros(50, 50_000, dtype=torch.int32)
    assert one.numel() > 1000 * SAMPLES
    one[3, 77], other[3, 77] = 1, 2
    assert batch_hash((one,), {}) != batch_hash((other,), {})
    assert batch_hash((one,), {}) == batch_hash((one.clone(),), {})


def recorded() -> Watch:
    """Twelve steps of rank 1: two micro-batches, two buckets that overlap, 2 ms after the last gradient."""
    watch = Watch(nn.Linear(2, 2), 1, 4, limits=Limits(history=10), link_bytes_per_second=1e9, clock=lambda: start)
    for step in range(12):
        start = 0.1 * step
        watch.forward_begins((torch.ones(1),), {}, False)
        watch.forward_begins((torch.ones(1),), {}, True)
        times = [start + ms / 1000 for ms in (20, 30, 50, 52)]
        buckets = [Bucket(1000, start + 0.040, start + 0.048), Bucket(3000, start + 0.044, start + 0.052)]
        watch.steps_finished([Timing(step, *times, buckets, [(0.098, 0, 0)] * 4)])
    return watch


def test_report() -> None:
    report = recorded().report()
    assert (report.rank, report.world_size, report.steps, report.micro_batches) == (1, 4, 10, 2)
    assert report.compute == pytest.approx(0.050)
    assert report.between == pytest.approx(0.048)
    assert report.seconds == pytest.approx(0.100)
    assert report.exposed == pytest.approx(0.002)
    assert report.waiting == 0
    assert report.hidden == pytest.approx(0.010)
    assert (report.bytes, report.buckets) == (4000, 2)
    assert report.algorithm_bandwidth == pytest.approx(4000 / 0.012)
    assert report.bus_bandwidth == pytest.approx(1.5 * 4000 / 0.012)
    assert [(each.rank, each.ratio) for each in report.ranks] == [(rank, 1.0) for rank in range(4)]
    text = str(report)
    for part in ("rank 1 of 4", "exposed communication", "2.00 ms", "of 1.000 GB/s of the link", "is hidden"):
        assert part in text, text


def test_printing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    recorded().report().print()
    table = capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "rich.table", None)
    recorded().report().print()
    plain = capsys.readouterr().out
    assert plain == f"{recorded().report()}\n" != table
    for part in ("hidden communication", "10.00 ms", "own work per step", "communication is hidden behind backward"):
        assert part in table
        assert part in plain


def test_report_repeats_warnings_and_may_be_empty() -> None:
    empty = Cluster(module=norms())
    report = empty.watches[0].report()
    assert report.steps == 0
    assert "BatchNorm is not synchronised" in str(report)
    cluster = Cluster()
    for _ in range(30):
        cluster.step([0.1, 0.2], communication=0.3)
    assert len(cluster.messages[0]) == 2
    advice = cluster.watches[0].report().advice
    assert [each.split(":")[0][:40] for each in advice] == [each.split(":")[0][:40] for each in cluster.messages[0]]


@pytest.mark.parametrize(
    ("link", "bucket_bytes", "advised"), [(1e6, 1000, True), (1e5, 1000, False), (1e12, 1 << 27, False)]
)
def test_advice_on_larger_buckets(link: float, bucket_bytes: int, advised: bool) -> None:
    watch = Watch(nn.Linear(2, 2), 0, 2, link_bytes_per_second=link)
    for step in range(10):
        buckets = [Bucket(bucket_bytes, step + 0.90, step + 0.91)]
        watch.steps_finished([Timing(step, step + 0.1, step + 0.2, step + 0.8, step + 0.91, buckets)])
    assert ("bucket_cap_mb" in str(watch.report())) == advised


def test_steps_without_a_table_of_ranks() -> None:
    watch = Watch(nn.Linear(2, 2), 0, 2, warn=pytest.fail)
    for step in range(20):
        watch.steps_finished([Timing(step, step + 0.1, step + 0.2, step + 0.8, step + 0.9)])
    report = watch.report()
    assert report.ranks == ()
    assert report.seconds == pytest.approx(1.0)
    assert report.compute == pytest.approx(0.7)
    assert "own work" not in str(report)


def test_trace(tmp_path: Path) -> None:
    recorded().trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {"rank 1", "compute", "waiting", "reduction 0", "reduction 1"}
    last = [event for event in events if event["args"].get("step") == 11]
    assert [event["name"] for event in last[:4]] == ["1 micro-batch", "forward", "backward", "exposed communication"]
    durations = {event["name"]: round(event["dur"]) for event in last}
    assert durations["backward"] == 20_000
    assert durations["bucket 1"] == 8_000
    by_row: dict[int, float] = {}
    for event in (event for event in events if event["ph"] == "X"):
        assert event["ts"] >= by_row.get(event["tid"], 0.0) - 1e-3
        by_row[event["tid"]] = event["ts"] + event["dur"]


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_picture(tmp_path: Path, suffix: str) -> None:
    watch = recorded()
    path = tmp_path / f"step.{suffix}"
    watch.picture(path, step=5)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
    watch.picture(path)
    assert path.read_bytes() != content
    with pytest.raises(ValueError, match=r"step 1 has not been recorded; kept are 2 … 11"):
        watch.picture(path, step=1)


def test_warnings_point_at_the_program() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn("look")
        Watch(norms(), 0, 2)
    assert [each.category for each in caught] == [DDPWarning] * 2
    assert {each.filename for each in caught} == {__file__}


PROGRAM = """
import sys
from torch import nn
sys.path[:0] = {path!r}
from test_ddp_watch import Timing
from ucxring.ddp.watch import Watch
reporting, other_rank, without_steps = (Watch(nn.Linear(2, 2), rank, 2, report_at_exit=True) for rank in (0, 1, 0))
for watch in (reporting, other_rank):
    watch.steps_finished([Timing(0, 0.0, 0.1, 0.2, 0.3)])
print("the end")
"""


def test_report_at_exit() -> None:
    program = PROGRAM.format(path=sys.path)
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.startswith("the end")
    assert output.count("ucxring DDP, rank") == output.count("ucxring DDP, rank 0 of 2") == 1
