"""Lines of several ranks and of rows, as they come from several nodes of a real Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from slurm.slurm_home import SlurmHome

pytestmark = ON_SLURM


@pytest.fixture
def home(tmp_path: Path, slurm: Slurm) -> SlurmHome:
    return SlurmHome(tmp_path, slurm)


def test_ranks_on_two_nodes_are_followed_together(home: SlurmHome) -> None:
    run = home.submit("-N", "2", "--procs", "2", "sh", "-c", "echo first $RANK; sleep 3; echo last $RANK")
    followed = home.gofer("logs", "-f", run, "--rank", "all").out.splitlines()
    lines = [f"[{rank}] {word} {rank}" for rank in range(4) for word in ("first", "last")]
    assert sorted(followed) == lines
    assert followed[-1].startswith(("[0] last", "[1] last", "[2] last", "[3] last"))
    assert home.log(run, "--rank", "all", "--node", "1").splitlines() == lines[4:]
    # Nodes note the length of logs after two seconds.
    assert home.log(run, "--rank", "all", "--since", "1h").splitlines() == lines


def test_the_rows_of_an_array_are_followed_together(home: SlurmHome) -> None:
    words = ("--each", "i=0..4", "sh", "-c", "echo row {i}; test {i} != 3")
    done = home.gofer("submit", "-f", "--no-code", *words, status=1)
    lines = [f"[{row}] row {row}" for row in range(5)]
    assert sorted(done.out.splitlines()) == lines
    assert " failed: 4 ok, 1 failed" in done.err
    assert home.log("last", "--grep", "[13]").splitlines() == [lines[1], lines[3]]
