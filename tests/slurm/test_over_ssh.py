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
from clusters.ssh import SshHosts
from home import Home, until

from gofer.ops.session import Session
from gofer.testing.backend_conformance import BackendConformance

pytestmark = ON_SLURM


class TestSlurmOverSsh(BackendConformance):
    column = "slurm over ssh"
    smoke = True
    target = "lab"
    gpus_per_node = 4
    timeout_s = 200.0
    home: Home

    @pytest.fixture(autouse=True)
    def _home(
        self, tmp_path: Path, slurm: Slurm, slurm_login: SshHosts, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[None]:
        monkeypatch.setenv("PATH", slurm_login.env["PATH"])
        monkeypatch.delenv("SLURM_CONF", raising=False)
        self.home = Home(tmp_path)
        self.home.configure(
            f"targets:\n  lab: {{kind: slurm, login: login-jump, gpus_per_node: 4, scratch: {tmp_path}}}\n"
        )
        yield
        shutil.rmtree(slurm_login.machines["login"].home / ".gofer" / "slurm", ignore_errors=True)

    def open(self) -> Session:
        return Session(self.home.folder, self.home.environ, emit=lambda _: None)


def test_a_run_is_reached_from_any_folder(tmp_path: Path, slurm: Slurm, slurm_login: SshHosts) -> None:
    home = Home(tmp_path)
    home.environ["PATH"] = f"{slurm_login.bin}:{home.environ['PATH']}"
    home.environ.pop("SLURM_CONF", None)
    home.configure(f"targets: {{lab: {{kind: slurm, login: login-jump, scratch: {tmp_path}}}}}\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run = home.submit("-c", "lab", "bash", "-c", "echo there; exec sleep 600")
    (home.folder / "gofer.yaml").unlink()
    until(lambda: home.gofer("logs", run, cwd=elsewhere).out == "there\n", "its log")
    assert home.gofer("abort", run, cwd=elsewhere).out == f"{run} cancelled\n"
