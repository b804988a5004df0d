"""The working copy on nodes that share the person's home."""

from __future__ import annotations

import subprocess
import sys
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


def test_the_projects_environment_and_path_lead_to_the_copy(home: SlurmHome) -> None:
    venv = [sys.executable, "-m", "venv", "--without-pip", str(home.folder / ".venv")]
    subprocess.run(venv, check=True, timeout=120)
    (home.folder / "lib").mkdir()
    (home.folder / "lib" / "mypkg.py").write_text("V = 1\n")
    (home.folder / "t.py").write_text("import sys, mypkg; print(sys.prefix, mypkg.__file__)")
    path = f"PYTHONPATH={home.folder}/lib"
    run = home.gofer("submit", "-Q", "--wait", "--env", path, ".venv/bin/python", "t.py").out.strip()
    prefix, module = home.log(run).split()
    assert prefix.endswith("/.venv") and module.endswith(f"/{home.folder.name}/lib/mypkg.py")
    assert str(home.folder) not in module


def test_standard_input_and_a_secret_file_reach_the_node(home: SlurmHome) -> None:
    assert home.finish_with_input() == "600\nfrom here\nSHOWN=abc\nKEY=***********\n"
