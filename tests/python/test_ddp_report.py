"""The report of DistributedDataParallel, its trace and its picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ddp_cluster import Bucket, Cluster, Timing, norms, recorded
from torch import nn

from ucxring.ddp.watch import Watch


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


def test_waiting_for_a_straggler_is_not_communication() -> None:
    cluster = Cluster(2, straggler=100.0)
    for _ in range(30):
        cluster.step([0.1, 0.3], communication=0.01)
    cluster.silent()
    report = cluster.watches[0].report()
    assert report.waiting == pytest.approx(0.2)
    assert report.exposed == pytest.approx(0.01)


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
