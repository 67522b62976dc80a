"""Includes point down only: backend, then collectives, then transport; foreign headers stay in their folders."""

import re

import pytest

from project import CPP_SUFFIXES, project_files, read

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)

TORCH = r"(torch|ATen|c10|pybind11)/"
UCX = r"(ucp|uct|ucs|ucm)/"
CUDA = r"(cuda|nccl|nvrtc)"

# (files the rule speaks of, includes that they must not have, why)
RULES = [
    (r"transport/", r"(collectives|backend)/", "transport/ knows no layer above it"),
    (r"collectives/", r"backend/", "collectives/ know no layer above them"),
    (r"(?!backend/|docs/examples/)", TORCH, "only backend/ and examples include torch"),
    (r"(?!transport/ucx/)", UCX, "only transport/ucx/ includes UCX"),
    (r"(?!transport/cuda|collectives/(reduce|device)/|tests/|bench/)", CUDA, "CUDA headers only in the CUDA folders"),
]


def violations(path: str, text: str) -> list[str]:
    """Every include in `text` that the file `path` may not have, with the reason."""
    found = []
    for include in INCLUDE.findall(text):
        for files, forbidden, why in RULES:
            if re.match(files, path) and re.match(forbidden, include):
                found.append(f"{path}: includes {include} ({why})")
    return found


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("transport/a.hpp", '#include "collectives/schedule.hpp"'),
        ("collectives/a.cpp", '#  include "backend/work.hpp"'),
        ("collectives/a.cpp", "#include <torch/torch.h>"),
        ("tests/unit/a.cpp", "#include <c10/util/Exception.h>"),
        ("collectives/a.cpp", "#include <ucp/api/ucp.h>"),
        ("backend/a.cpp", "#include <cuda_runtime.h>"),
    ],
)
def test_a_violation_is_found(path: str, text: str) -> None:
    assert len(violations(path, text)) == 1


def test_includes_point_down() -> None:
    found = [line for path in project_files(*CPP_SUFFIXES) for line in violations(str(path), read(path))]
    assert not found, "\n".join(found)
