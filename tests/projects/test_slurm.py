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
from slurm.slurm_home import SlurmHome

pytestmark = ON_SLURM


@pytest.mark.parametrize("name", PROJECTS)
def test_the_same_command_does_the_same_thing(name: str, slurm: Slurm, tmp_path: Path) -> None:
    home = SlurmHome(tmp_path, slurm)
    plain, gofer = both(PROJECTS[name], home, tmp_path / "plain")
    home.close()
    assert gofer.lines == plain.lines
    assert gofer.files == plain.files
    assert gofer.status == plain.status
