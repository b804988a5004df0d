"""The login node: Slurm over SSH, straight and through a jump host."""

from __future__ import annotations

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_login as slurm_login
from clusters.fixtures import slurm_login_site as slurm_login_site
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from clusters.ssh import SshHosts

pytestmark = ON_SLURM


@pytest.mark.parametrize("host", ["login", "login-jump"])
def test_slurm_answers_at_the_login_node(slurm_login: SshHosts, slurm: Slurm, host: str) -> None:
    done = slurm_login.ssh(host, "hostname; srun -N2 hostname | sort")
    assert (done.stdout.split(), done.stderr) == (["login", *slurm.nodes[:2]], "")


def test_the_home_of_the_login_node_is_that_of_its_jobs(slurm_login: SshHosts) -> None:
    done = slurm_login.ssh("login", "echo kept > ~/file; srun sh -c 'cat ~/file; pwd'")
    assert done.stdout.split() == ["kept", str(slurm_login.machines["login"].home)]


def test_a_job_outlives_the_connection_and_the_login_node(slurm_login: SshHosts, slurm: Slurm) -> None:
    wrapped = "until [ -e ~/go ]; do sleep 0.1; done; touch ~/done"
    job = slurm_login.ssh("login", f"sbatch --parsable --wrap='{wrapped}'").stdout.strip()
    slurm.until_state(job, "RUNNING")
    slurm_login.kill("login")
    (slurm_login.machines["login"].home / "go").touch()
    slurm.until_state(job, "COMPLETED")
    assert (slurm_login.machines["login"].home / "done").exists()
