"""Where a process stands among the others, by the variables of each launcher."""

from __future__ import annotations

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
    import subprocess
    import sys

    program = "import sys, gofer.torch; print([n for n in sys.modules if n in ('torch', 'msgspec', 'click')])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
