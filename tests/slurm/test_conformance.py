"""The Slurm backend passes the suite that is shipped for every backend, on a cluster without accounting."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from slurm.slurm_home import SlurmHome

from gofer.ops.session import Session
from gofer.testing.backend_conformance import BackendConformance

pytestmark = ON_SLURM


class TestSlurm(BackendConformance):
    column = "slurm"
    target = "lab"
    gpus_per_node = 4
    timeout_s = 200.0
    home: SlurmHome

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = SlurmHome(tmp_path, slurm)
        monkeypatch.setenv("SLURM_CONF", slurm.exports["SLURM_CONF"])

    def open(self) -> Session:
        return self.home.session()
