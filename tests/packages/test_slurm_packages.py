"""Packages on a Slurm site: none from its own login node, where the environment is seen; built over SSH."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_login as slurm_login
from clusters.fixtures import slurm_login_site as slurm_login_site
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from clusters.ssh import SshHosts
from home import Home
from packages.wheels import write_wheel
from slurm.slurm_home import SlurmHome

pytestmark = ON_SLURM

SHOW = "import alpha, os; print(alpha.VERSION, os.environ['NODE_RANK'])"


def write_list(folder: Path) -> None:
    write_wheel(folder / "wheels", "alpha")
    (folder / "requirements.txt").write_text("alpha\n")


def test_packages_are_built_on_the_login_node_on_request(tmp_path: Path, slurm: Slurm) -> None:
    home = SlurmHome(tmp_path, slurm)
    write_list(home.folder)
    plain = home.gofer("submit", "--wait", "true")
    assert "packages" not in plain.err
    # The nodes share the folder: one of them builds, and the other waits for it.
    words = ["--packages", "auto", "--wheels", "wheels", "-N", "2", "--procs", "1", "python", "-c", SHOW]
    done = home.gofer("submit", "--wait", *words)
    assert "packages: requirements.txt (pip)" in done.err
    run_id = done.out.strip()
    assert [home.log(run_id, "--rank", str(rank)) for rank in (0, 1)] == ["1.0 0\n", "1.0 1\n"]
    steps = [one["step"] for node in (0, 1) for one in home.events(run_id, node=node) if "step" in one]
    assert steps.count("built") == 1
    (env,) = (home.far / "packages").glob("*/*/env")
    # One that was used lately stays, and one that no run has used for long goes.
    home.gofer("prune", "--yes")
    assert env.exists()
    os.utime(env.parents[1] / "used", (1000, 1000))
    assert "packages of requirements.txt" in home.gofer("prune", "--dry-run").out
    home.gofer("prune", "--yes")
    assert not env.parents[1].exists()


def test_over_ssh_packages_are_built(
    tmp_path: Path, slurm: Slurm, slurm_login: SshHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", slurm_login.env["PATH"])
    monkeypatch.delenv("SLURM_CONF", raising=False)
    home = Home(tmp_path)
    home.configure(
        f"targets:\n  lab: {{kind: slurm, login: login-jump, scratch: {tmp_path}}}\n"
        "target: lab\njob: {wheels: wheels}\n"
    )
    write_list(home.folder)
    try:
        done = home.gofer("submit", "--wait", "python", "-c", "import alpha; print(alpha.VERSION)")
        assert "packages: requirements.txt (pip)" in done.err
        assert home.log(done.out.strip()) == "1.0\n"
    finally:
        for name in ("slurm", "packages"):
            shutil.rmtree(slurm_login.machines["login"].home / ".gofer" / name, ignore_errors=True)
