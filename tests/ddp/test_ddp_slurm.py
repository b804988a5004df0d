"""The DDP example on two nodes of a real Slurm, with a real torch. `make test-torch` runs it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from slurm.slurm_home import SlurmHome

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = [pytest.mark.torch, pytest.mark.slow, *ON_SLURM]


@pytest.mark.parametrize("launcher", ["spawn", "mpi"])
def test_two_nodes_train_one_model(tmp_path: Path, slurm: Slurm, launcher: str) -> None:
    python = os.environ.get("GOFER_TEST_TORCH")
    assert python, "GOFER_TEST_TORCH names no Python with torch; `make test-torch` sets it"
    home = SlurmHome(tmp_path, slurm)
    shutil.copy(ROOT / "examples" / "ddp" / "train.py", home.folder)
    given = ("-e", f"PYTHONPATH={ROOT / 'src'}", "-e", "OMP_NUM_THREADS=1", "--launcher", launcher)
    words = ("submit", "-Q", "--wait", "-N", "2", "--procs", "2", *given, python, "train.py")
    run = home.gofer(*words, status=None).out.strip()
    logs = [home.log(run, "--rank", str(rank)) for rank in range(4)]
    assert home.view(run)["state"] == "succeeded", logs
    found = {weight for log in logs for weight in re.findall(r"weights ([0-9a-f]{12})", log)}
    assert len(found) == 1
    assert all(f"rank {rank} of 4 on cpu" in log for rank, log in enumerate(logs))
