"""Tensors over registered memory: like others, given back, and used by collectives."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from harness import run

import ucxring


def resident_bytes() -> int:
    """Bytes of registered memory that this process holds: blocks of the memory file it is in."""
    sizes = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            if "ucxring-pool" in os.readlink(descriptor):
                sizes.append(os.stat(descriptor).st_blocks * 512)
        except FileNotFoundError:  # the descriptor of the folder itself
            continue
    return max(sizes, default=0)


@pytest.mark.parametrize(
    ("size", "shape"),
    [((), ()), ((5,), (5,)), ((2, 3), (2, 3)), (([4, 1, 2],), (4, 1, 2)), ((torch.Size([3, 0]),), (3, 0))],
)
def test_shape_and_strides_are_those_of_torch_empty(size: tuple[object, ...], shape: tuple[int, ...]) -> None:
    tensor = ucxring.empty(*size)
    expected = torch.empty(shape)
    assert tensor.shape == expected.shape
    assert tensor.stride() == expected.stride()
    assert tensor.is_contiguous()
    assert tensor.device.type == "cpu"


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.float8_e4m3fn, torch.int8, torch.bool, torch.complex64]
)
def test_dtype_is_the_one_asked_for(dtype: torch.dtype) -> None:
    tensor = ucxring.empty(3, dtype=dtype)
    assert tensor.dtype == dtype
    assert tensor.untyped_storage().nbytes() == 3 * dtype.itemsize


def test_default_dtype_is_torchs() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert ucxring.empty(1).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_memory_is_aligned_and_goes_back_with_the_last_view() -> None:
    before = resident_bytes()
    tensor = ucxring.empty(1 << 22)
    assert tensor.data_ptr() % (2 << 20) == 0
    assert resident_bytes() >= before + (16 << 20)
    view = tensor.fill_(2).view(2, -1)[1]
    del tensor
    gc.collect()
    assert view.sum().item() == 1 << 22
    assert resident_bytes() >= before + (16 << 20)
    del view
    gc.collect()
    assert resident_bytes() == before


def test_tensor_can_grow_and_be_saved(tmp_path: Path) -> None:
    tensor = ucxring.empty(4).copy_(torch.arange(4.0))
    torch.save(tensor, tmp_path / "tensor")
    assert torch.equal(torch.load(tmp_path / "tensor"), tensor)
    tensor.resize_(100_000)
    assert tensor[:4].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [1 << 40, 1 << 60])
def test_absurd_sizes_are_errors_that_say_so(count: int) -> None:
    with pytest.raises(torch.OutOfMemoryError, match=f"{count} bytes"):
        ucxring.empty(count, dtype=torch.uint8)


def test_impossible_shapes_are_errors() -> None:
    with pytest.raises(RuntimeError, match="negative"):
        ucxring.empty(-1)
    with pytest.raises(RuntimeError, match="overflow"):
        ucxring.empty(1 << 62, 1 << 62)


def reduce_registered(rank: int, world_size: int) -> list[float]:
    results = []
    for count in (1, 1000, 300_000):
        tensor = ucxring.empty(count).fill_(rank + 1)
        tensor[-1] = 10 * rank
        dist.all_reduce(tensor)
        assert (tensor[:-1] == sum(range(1, world_size + 1))).all()
        gathered = ucxring.empty(world_size, count)
        dist.all_gather_into_tensor(gathered, tensor)
        assert torch.equal(gathered, tensor.expand(world_size, -1))
        results.append(tensor[-1].item())
    return results


@pytest.mark.parametrize("transport", ["auto", "ucx"])
def test_collectives_on_registered_memory(transport: str) -> None:
    assert run(reduce_registered, 2, env={"UCXRING_TRANSPORT": transport}) == [[10.0] * 3] * 2


def allocate_by_group(rank: int, world_size: int) -> None:
    cpu = torch.device("cpu")
    backend = dist.group.WORLD._get_backend(cpu)
    assert backend.supports_tensor_alloc(cpu)
    assert not backend.supports_tensor_alloc(torch.device("cuda:0"))
    before = resident_bytes()
    tensor = backend.allocate_tensor(1 << 20, dtype=torch.bfloat16, device=cpu)
    assert tensor.shape == (1 << 20,)
    assert tensor.dtype == torch.bfloat16
    assert resident_bytes() >= before + (2 << 20)
    tensor.fill_(1)
    dist.all_reduce(tensor)
    assert (tensor == world_size).all()
    with pytest.raises(ValueError, match="CPU"):
        backend.allocate_tensor(1, dtype=torch.float32, device=torch.device("meta"))


def test_groups_allocate_tensors() -> None:
    run(allocate_by_group, 2)


def free_in_child(rank: int, world_size: int) -> float:
    tensor = ucxring.empty(1 << 20).fill_(3)
    child = os.fork()
    if child == 0:
        del tensor
        gc.collect()
        assert ucxring.empty(10).sum().item() == 0  # of its own
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return tensor.sum().item()


def test_a_forked_child_frees_nothing_of_its_parent() -> None:
    assert run(free_in_child, 1) == [3 << 20]


def private_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ahead(rank: int, world_size: int) -> int:
    """The root of broadcasts is ahead of a rank that computes; returns by how much that one grows."""
    tensor, count = torch.empty(4 << 20), 16
    tensor.fill_(-1)
    dist.barrier()
    before = private_bytes()
    if rank == 1:
        time.sleep(1.5)
    grown = private_bytes() - before
    for i in range(count):
        if rank == 0:
            tensor.fill_(i)
        dist.broadcast(tensor, 0)
        assert bool((tensor == i).all())
    return grown


def test_what_peers_send_ahead_is_bounded() -> None:
    """All together are 256 MiB."""
    assert run(ahead, 2, env={"UCXRING_TRANSPORT": "shm"})[1] < 96 << 20


def premultiplied(rank: int, world_size: int) -> int:
    """Returns by how much this rank has grown when all is over."""
    count, size = 4, 36 << 20  # the allocator gives back to the system what is as large
    dist.barrier()
    before = private_bytes()
    tensors = [torch.ones(size // 4) for _ in range(count)]
    operation = dist._make_nccl_premul_sum(0.5)
    works = [dist.all_reduce(tensor, op=operation, async_op=True) for tensor in tensors]
    for work, tensor in zip(works, tensors, strict=True):
        work.wait()
        assert bool((tensor == world_size / 2).all())
    del works, work, tensors, tensor
    dist.barrier()
    return private_bytes() - before


def test_premul_sum_keeps_no_copies() -> None:
    """Each of the 4 inputs is scaled into memory of its own, which goes when its operation is done."""
    assert max(run(premultiplied, 2)) < 64 << 20
