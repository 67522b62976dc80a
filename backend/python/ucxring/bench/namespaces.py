"""Several hosts on one: each rank in a network namespace of its own, joined by a switch with links of a given rate.

The switch lives in a namespace too, so that nothing appears among the interfaces of the machine itself. Needs root.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

PREFIX = "ucxring"
SUBNET = "10.213.7"
INTERFACE = "eth0"
HOSTS_FOLDER = Path("/etc/netns")  # `ip netns exec NAME` shows NAME/hosts there as /etc/hosts
_numbers = itertools.count()


class NamespaceError(RuntimeError):
    """A command that makes or removes namespaces failed."""


def command(*words: str) -> str:
    """Runs a command; its output. Raises `NamespaceError` with what it said."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NamespaceError(f"`{' '.join(words)}` failed: {done.stderr.strip() or done.returncode}")
    return done.stdout


def names() -> list[str]:
    """All network namespaces that exist."""
    return [line.split()[0] for line in command("ip", "netns", "list").splitlines() if line]


def unavailable() -> str | None:
    """Why namespaces cannot be made here; None when they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "tc"):
        if not shutil.which(tool):
            return f"network namespaces need the command `{tool}` (Debian package iproute2)"
    probe = f"{PREFIX}-{os.getpid()}-probe"
    try:
        command("ip", "netns", "add", probe)
        command("ip", "netns", "delete", probe)
    except NamespaceError as error:
        return f"network namespaces are not permitted here: {error}"
    return None


def remove_stale() -> None:
    """Removes namespaces of processes that were killed before they could."""
    for name in names():
        owner = re.fullmatch(rf"{PREFIX}-(\d+)-.*", name)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            command("ip", "netns", "delete", name)
            shutil.rmtree(HOSTS_FOLDER / name, ignore_errors=True)


class Network:
    """`hosts` namespaces on one switch, host i at `address(i)`. A context manager; leaving it removes everything.

    `rate` limits both directions of each link, in the words of tc ("1gbit"); None leaves them unlimited.
    """

    def __init__(self, hosts: int, rate: str | None = None) -> None:
        self._base = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._rate = rate
        self.hosts = [f"{self._base}-{index}" for index in range(hosts)]
        self._switch = f"{self._base}-switch"

    def __enter__(self) -> Self:
        remove_stale()
        try:
            self._make_switch()
            for index, host in enumerate(self.hosts):
                self._make_host(index, host)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def address(self, index: int) -> str:
        """The IPv4 address of host `index`."""
        return f"{SUBNET}.{index + 1}"

    def prefix(self, index: int) -> list[str]:
        """Words that, before a command, run it on host `index`."""
        return ["ip", "netns", "exec", self.hosts[index]]

    def add_dead_end(self, index: int, name: str, address: str) -> None:
        """A bridge on host `index` that leads nowhere, as docker0 does. `address` with its prefix length."""
        self._ip(self.hosts[index], "link", "add", name, "type", "bridge")
        self._ip(self.hosts[index], "address", "add", address, "dev", name)
        self._ip(self.hosts[index], "link", "set", name, "up")

    def set_hosts_file(self, index: int, text: str) -> None:
        """What host `index` sees as /etc/hosts."""
        folder = HOSTS_FOLDER / self.hosts[index]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts").write_text(text)

    def _ip(self, namespace: str, *words: str) -> None:
        command("ip", "-netns", namespace, *words)

    def _make_switch(self) -> None:
        command("ip", "netns", "add", self._switch)
        self._ip(self._switch, "link", "add", "switch", "type", "bridge")
        self._ip(self._switch, "link", "set", "switch", "up")

    def _make_host(self, index: int, host: str) -> None:
        port = f"port{index}"
        command("ip", "netns", "add", host)
        self._ip(host, "link", "set", "lo", "up")
        self._ip(host, "link", "add", INTERFACE, "type", "veth", "peer", "name", port, "netns", self._switch)
        self._ip(host, "address", "add", f"{self.address(index)}/24", "dev", INTERFACE)
        self._ip(host, "link", "set", INTERFACE, "up")
        self._ip(self._switch, "link", "set", port, "master", "switch", "up")
        if self._rate:
            self._limit(host, INTERFACE)
            self._limit(self._switch, port)

    def _limit(self, namespace: str, interface: str) -> None:
        words = ("root", "tbf", "rate", str(self._rate), "burst", "128kb", "latency", "20ms")
        command("ip", "netns", "exec", namespace, "tc", "qdisc", "add", "dev", interface, *words)

    def _remove(self) -> None:
        existing = names()
        for name in (*self.hosts, self._switch):
            if name in existing:
                command("ip", "netns", "delete", name)
            shutil.rmtree(HOSTS_FOLDER / name, ignore_errors=True)
        with contextlib.suppress(OSError):  # not ours, or other networks still use it
            HOSTS_FOLDER.rmdir()


def bits_per_second(rate: str) -> float:
    """What a rate in the words of tc means: "1gbit" is 1e9."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)bit", rate.lower())
    if not match:
        raise ValueError(f"rate {rate!r} is not a number with kbit, mbit or gbit, such as 1gbit")
    return float(match[1]) * {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}[match[2]]


def prefixes(network: Network) -> Sequence[Sequence[str]]:
    """For `launch.Job`: rank i on host i."""
    return [network.prefix(index) for index in range(len(network.hosts))]
