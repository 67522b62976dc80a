"""Ctrl-C, daemon threads and the end of the interpreter; what a process writes to standard error meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import PROMPT_S, free_port, wait_for_file

HEAD = """
import os, pathlib, sys, threading, time
from datetime import timedelta
import torch, torch.distributed as dist, ucxring
rank, world_size, folder = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
address = f"file://{folder}/store"
def init():
    dist.init_process_group(
        "ucxring", init_method=address, rank=rank, world_size=world_size, timeout=timedelta(seconds=40)
    )
def until(name):
    while not (folder / name).exists(): time.sleep(0.01)
"""


def start(program: str, folder: Path, world_size: int = 2) -> list[subprocess.Popen[str]]:
    return [
        subprocess.Popen(
            [sys.executable, "-c", HEAD + program, str(rank), str(world_size), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world_size)
    ]


def finish(processes: list[subprocess.Popen[str]]) -> list[tuple[str, str]]:
    """What each wrote, once all have ended well."""
    results = []
    for process in processes:
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        results.append((output, errors))
    return results


DAEMONS = {
    "all_reduce": "dist.all_reduce(torch.ones(3))",
    "work": "dist.all_reduce(torch.ones(3), async_op=True).wait()",
    "recv": "dist.recv(torch.ones(3), 1)",
}


@pytest.mark.parametrize("call", DAEMONS)
def test_a_daemon_thread_that_waits_does_no_harm(tmp_path: Path, call: str) -> None:
    program = f"""
init()
dist.all_reduce(torch.ones(3))
if rank == 0:
    threading.Thread(target=lambda: {DAEMONS[call]}, daemon=True).start()
    time.sleep(0.5)
    (folder / "waits").touch()
else:
    until("waits")
    time.sleep(1)
"""
    assert finish(start(program, tmp_path)) == [("", "")] * 2


def test_ctrl_c_ends_a_wait_for_hooks(tmp_path: Path) -> None:
    program = """
init()
dist.all_reduce(torch.ones(3))
if rank == 0:
    dist.group.WORLD._register_on_completion_hook(lambda info: None)
    dist.all_reduce(torch.ones(3), async_op=True)
    (folder / "destroys").touch()
    try:
        dist.destroy_process_group()
    except KeyboardInterrupt:
        dist.destroy_process_group()
        print("interrupted")
else:
    until("interrupted")
"""
    processes = start(program, tmp_path)
    wait_for_file(tmp_path / "destroys")
    time.sleep(0.5)
    began = time.monotonic()
    processes[0].send_signal(signal.SIGINT)
    output, errors = processes[0].communicate(timeout=60)
    assert output == "interrupted\n", errors
    assert time.monotonic() - began < PROMPT_S
    (tmp_path / "interrupted").touch()
    processes[1].communicate(timeout=60)


def test_lines_of_subgroups_have_the_prefix_of_the_default_group(tmp_path: Path) -> None:
    program = """
os.environ["UCXRING_LOG_LEVEL"] = "debug"
init()
group = dist.new_group([1, 2])
if rank > 0:
    dist.all_reduce(torch.ones(3), group=group)
if rank == 2:
    dist.group.WORLD._get_backend(torch.device("cpu")).abort()
    (folder / "aborted").touch()
until("aborted")
"""
    _, errors = finish(start(program, tmp_path, 3))[2]
    lines = [line for line in errors.splitlines() if "failed" in line]
    assert lines
    assert all(line.startswith("[ucxring rank 2/3]") for line in lines), lines


def test_a_wait_for_a_late_rank_is_quiet(tmp_path: Path) -> None:
    """A TCP store says something about each of its waits that ends without the key."""
    program = """
address = "tcp://127.0.0.1:" + (folder / "port").read_text()
init()
if rank == 1:
    time.sleep(1.5)
dist.new_group()
dist.barrier()
if rank == 0:  # it serves the store
    until("left")
dist.destroy_process_group()
(folder / "left").touch()
"""
    (tmp_path / "port").write_text(str(free_port()))
    assert [errors for _, errors in finish(start(program, tmp_path))] == ["", ""]


SETTINGS = ["ALGORITHM=all_reduce:ring", "DETERMINISTIC=1", "SLICE_BYTES=64Ki", "TRANSPORT=ucx"]


@pytest.mark.parametrize(("setting", "odd"), [*((setting, 1) for setting in SETTINGS), (SETTINGS[-1], 0)])
def test_settings_that_differ_are_named_at_once(tmp_path: Path, setting: str, odd: int) -> None:
    name, value = setting.split("=")
    program = f"""
if rank == {odd}:
    os.environ["UCXRING_{name}"] = "{value}"
try:
    init()
except dist.DistBackendError as error:
    print(error)
"""
    for output, _ in finish(start(program, tmp_path, 3)):
        assert "[mismatch] rank" in output
        assert f"has UCXRING_{name}=" in output
        assert value in output


def test_a_group_is_made_with_equal_settings_after_different_ones(tmp_path: Path) -> None:
    program = """
store = dist.FileStore(str(folder / "again"), world_size)
for attempt in range(2):
    options = ucxring.Options(transport="ucx" if rank == 1 and attempt == 0 else "auto")
    try:
        dist.init_process_group("ucxring", store=store, rank=rank, world_size=world_size, pg_options=options)
    except dist.DistBackendError as error:
        assert attempt == 0 and "UCXRING_TRANSPORT" in str(error), error
dist.all_reduce(torch.ones(3))
"""
    finish(start(program, tmp_path, 3))


def test_transports_that_do_not_exist_are_explained(tmp_path: Path) -> None:
    program = """
os.environ["UCXRING_TRANSPORT"] = "ucx"
os.environ["UCXRING_UCX_TLS"] = "rc"
try:
    init()
except (ValueError, dist.DistBackendError) as error:
    print(error)
"""
    for output, _ in finish(start(program, tmp_path)):
        assert "UCXRING_UCX_TLS=rc" in output
        assert "self" in output


def test_variables_of_ucx_that_win_are_named(tmp_path: Path) -> None:
    program = """
os.environ["UCXRING_TRANSPORT"] = "ucx"
os.environ["UCX_TLS"] = "self"
try:
    init()
    dist.all_reduce(torch.ones(3))
except dist.DistBackendError as error:
    print(error)
"""
    outputs = [output for output, _ in finish(start(program, tmp_path))]
    assert any("UCX_TLS=self, which is set and wins over UCXRING_UCX_TLS" in output for output in outputs), outputs


def test_an_exhausted_port_range_is_named(tmp_path: Path) -> None:
    port = free_port()
    program = f"""
os.environ["UCXRING_TRANSPORT"] = "ucx"
os.environ["UCXRING_PORT_RANGE"] = "{port}-{port}"
try:
    ucxring.ProcessGroupUcxring(dist.HashStore(), 0, 1, ucxring.Options())
    ucxring.ProcessGroupUcxring(dist.HashStore(), 0, 1, ucxring.Options())
except dist.DistBackendError as error:
    print(error)
"""
    [(output, _)] = finish(start(program, tmp_path, 1))
    assert f"UCXRING_PORT_RANGE={port}-{port} are in use" in output


REFUSES_MEMORY_FILES = """
import ctypes, struct
def refuse_memfd_create():
    memfd_create, allow, refuse = 319, 0x7FFF0000, 0x00050001
    code = [(0x20, 0, 0, 0), (0x15, 1, 0, memfd_create), (0x06, 0, 0, allow), (0x06, 0, 0, refuse)]
    raw = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in code))
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
    program = Program(len(code), ctypes.cast(raw, ctypes.c_void_p))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(program)) == 0
refuse_memfd_create()
"""


def test_registered_tensors_are_ordinary_where_memory_files_are_refused(tmp_path: Path) -> None:
    program = REFUSES_MEMORY_FILES + "print(ucxring.empty(10).fill_(1).sum().item(), ucxring.empty(2, 3).shape)"
    [(output, errors)] = finish(start(program, tmp_path, 1))
    assert output == "10.0 torch.Size([2, 3])\n"
    assert errors.count("ordinary memory") == 1
    assert "memfd_create" in errors
