"""The same site from a laptop: through its login node, behind a jump host."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_login as slurm_login
from clusters.fixtures import slurm_login_site as slurm_login_site
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from clusters.ssh import Boxes
from home import Home

from gofer.ops.session import Session
from gofer.testing.backend_conformance import BackendConformance

pytestmark = ON_SLURM


class TestSlurmOverSsh(BackendConformance):
    column = "slurm over ssh"
    target = "lab"
    gpus_per_node = 4
    timeout_s = 200.0
    home: Home

    @pytest.fixture(autouse=True)
    def _home(
        self, tmp_path: Path, slurm: Slurm, slurm_login: Boxes, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[None]:
        monkeypatch.setenv("PATH", slurm_login.env["PATH"])
        monkeypatch.delenv("SLURM_CONF", raising=False)
        self.home = Home(tmp_path)
        self.home.configure(
            f"targets:\n  lab: {{kind: slurm, login: login-jump, gpus_per_node: 4, scratch: {tmp_path}}}\n"
        )
        yield
        shutil.rmtree(slurm_login.boxes["login"].home / ".gofer" / "slurm", ignore_errors=True)

    @pytest.mark.usefixtures("kernel_kills")
    def test_signals_are_exact(self) -> None:
        super().test_signals_are_exact()

    def open(self) -> Session:
        return Session(self.home.folder, self.home.environ, say=lambda _: None)
