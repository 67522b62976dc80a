"""Two hosts on one machine: ranks in network namespaces of their own. Needs root."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ucxring import launch
from ucxring.bench import namespaces

reason = namespaces.unavailable()
pytestmark = pytest.mark.skipif(reason is not None, reason=reason or "")

PROGRAM = """
import sys, datetime, torch, torch.distributed as dist
import ucxring
dist.init_process_group("ucxring", timeout=datetime.timedelta(seconds=30))
for elements in (1, 2 << 20):
    tensor = torch.arange(elements, dtype=torch.float32) % 1000 + dist.get_rank()
    dist.all_reduce(tensor)
    expected = 2 * (torch.arange(elements, dtype=torch.float32) % 1000) + 1
    assert torch.equal(tensor, expected), elements
print("rank", dist.get_rank(), "right", flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def network() -> Iterator[namespaces.Network]:
    with namespaces.Network(2) as made:
        yield made


def run_ranks(network: namespaces.Network, **environment: str) -> None:
    prefixes = namespaces.prefixes(network)
    launch.run(launch.Job(["-c", PROGRAM], 2, environment, prefixes, network.address(0), timeout=120))


def test_small_and_large_all_reduce(network: namespaces.Network) -> None:
    run_ranks(network)


def test_host_name_that_resolves_to_loopback(network: namespaces.Network) -> None:
    for host in range(2):
        network.set_hosts_file(host, f"127.0.0.1 localhost\n127.0.1.1 {socket.gethostname()}\n")
    run_ranks(network)


def test_container_bridge_with_the_same_address_on_both(network: namespaces.Network) -> None:
    for host in range(2):
        network.add_dead_end(host, "docker0", "172.17.0.1/16")
        network.add_dead_end(host, "local0", "169.254.7.7/16")
    run_ranks(network)


def test_interface_by_name(network: namespaces.Network) -> None:
    run_ranks(network, UCXRING_NET_DEVICES=namespaces.INTERFACE)


def test_interface_that_does_not_exist(network: namespaces.Network, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(launch.RankFailedError):
        run_ranks(network, UCXRING_NET_DEVICES="eth9")
    message = capfd.readouterr().err
    assert "eth9" in message
    assert namespaces.INTERFACE in message


def test_bench_reports_the_share_of_the_line(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    command = [sys.executable, "-m", "ucxring", "bench", "all_reduce", "--namespaces", "2", "--rate", "100mbit"]
    command += ["--sizes", "2M", "--trials", "2", "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    for row in json.loads(file.read_text())["rows"]:
        assert 0.3 < row["line_share"] < 1.2, row


def test_bench_overlap_over_a_link(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    command = [sys.executable, "-m", "ucxring", "bench", "overlap", "--namespaces", "2", "--rate", "1gbit"]
    command += ["--systems", "ucxring/ucxring,torch/gloo", "--megabytes", "4", "--batch", "8", "--rounds", "1"]
    done = subprocess.run([*command, "--json", str(file)], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    record = json.loads(file.read_text())
    assert (record["conditions"]["namespaces"], record["conditions"]["rate"]) == (True, "1gbit")
    assert list(record["overlap"]) == ["ucxring/ucxring", "torch/gloo"]


def make_and_fail(hosts: list[str]) -> None:
    with namespaces.Network(2) as made:
        hosts += made.hosts
        assert set(hosts) <= set(namespaces.names())
        raise RuntimeError("on purpose")


def test_nothing_is_left_after_a_failure() -> None:
    hosts: list[str] = []
    with pytest.raises(RuntimeError, match="on purpose"):
        make_and_fail(hosts)
    assert len(hosts) == 2
    assert not set(hosts) & set(namespaces.names())


def test_namespaces_of_a_killed_process_are_removed_by_the_next() -> None:
    program = "import time\nfrom ucxring.bench import namespaces\nwith namespaces.Network(1) as made:\n"
    program += "    print(made.hosts[0], flush=True)\n    time.sleep(60)\n"
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    host = child.stdout.readline().strip()
    assert host in namespaces.names()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    namespaces.remove_stale()
    assert host not in namespaces.names()


def test_sigterm_cleans_up(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ucxring", "bench", "all_reduce", "--backends", "gloo", "--namespaces", "2"]
    child = subprocess.Popen([*command, "--trials", "100000", "--sizes", "4"], stdout=subprocess.DEVNULL)
    own = f"{namespaces.PREFIX}-{child.pid}-"
    deadline = time.monotonic() + 60
    while sum(name.startswith(own) for name in namespaces.names()) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(1)
    child.terminate()
    assert child.wait(30) != 0
    assert not [name for name in namespaces.names() if name.startswith(own)]
