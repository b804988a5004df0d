"""Where a process stands among the others, by the variables of each launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gofer.torch import RankPlace, find_place


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({}, RankPlace(0, 1, 0, 1)),
        ({"RANK": "3"}, RankPlace(0, 1, 0, 1)),
        ({"NODE_RANK": "1", "NNODES": "2"}, RankPlace(1, 2, 0, 1)),
        (
            {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"},
            RankPlace(5, 8, 1, 4),
        ),
        ({"RANK": "1", "WORLD_SIZE": "2"}, RankPlace(1, 2, 1, 2)),
        (
            {
                "OMPI_COMM_WORLD_RANK": "5",
                "OMPI_COMM_WORLD_SIZE": "8",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
            },
            RankPlace(5, 8, 1, 4),
        ),
        (
            {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "OMPI_COMM_WORLD_RANK": "0"},
            RankPlace(5, 8, 1, 8),
        ),
    ],
)
def test_the_place_is_what_the_launcher_says(environ: dict[str, str], place: RankPlace) -> None:
    assert find_place(environ) == place


def test_the_module_loads_neither_torch_nor_the_rest_of_gofer() -> None:
    program = "import sys, gofer.torch; print([n for n in sys.modules if n in ('torch', 'msgspec', 'click')])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


# What the module calls of torch, on a node with two GPUs: each call is printed.
TORCH = """\
import types
def call(name):
    return lambda *args, **options: print(name, *args, *(f"{key}={options[key]}" for key in sorted(options)))
device = lambda kind, index: index
cuda = types.SimpleNamespace(is_available=lambda: True, device_count=lambda: 2, set_device=call("set_device"))
distributed = types.SimpleNamespace(
    is_initialized=lambda: False, init_process_group=call("init"), HashStore=lambda: "own store"
)
"""


@pytest.mark.parametrize(
    ("variables", "arguments", "calls"),
    [
        ({}, "", ["set_device 0", "init nccl rank=0 store=own store world_size=1"]),
        (
            {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "5"},
            "",
            ["set_device 1", "init nccl init_method=env:// rank=1 world_size=2"],
        ),
        (
            {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
            "port=12345",
            ["set_device 1", "init nccl init_method=tcp://127.0.0.1:12345 rank=1 world_size=2"],
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "3",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                "AZ_BATCH_HOST_LIST": "10.0.0.4,10.0.0.5",
            },
            "device_id=0",
            [
                "set_device 1",
                "init nccl init_method=tcp://10.0.0.4:29500 rank=3 world_size=4",
                "set_device 0",
            ],
        ),
    ],
    ids=["alone", "gofer", "mpirun here", "mpirun on Azure"],
)
def test_the_function_of_quickdetection_joins_under_its_old_name(
    tmp_path: Path, variables: dict[str, str], arguments: str, calls: list[str]
) -> None:
    (tmp_path / "torch.py").write_text(TORCH)
    program = f"from gofer.torch import ensure_init_process_group\nensure_init_process_group({arguments})"
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), **variables}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == calls
