"""The same output and the same files afterwards, plainly and through gofer, on a real Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from projects.catalogue import PROJECTS
from projects.compare import both
from slurm.desk import Desk

pytestmark = ON_SLURM


@pytest.mark.parametrize("name", PROJECTS)
def test_the_same_command_does_the_same_thing(name: str, slurm: Slurm, tmp_path: Path) -> None:
    desk = Desk(tmp_path, slurm)
    plain, gofer = both(PROJECTS[name], desk, tmp_path / "plain")
    desk.close()
    assert gofer.lines == plain.lines
    assert gofer.files == plain.files
    assert gofer.status == plain.status
