"""`launcher: mpi` on a machine over SSH: a real mpirun there starts a real MPI program."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.ssh import SshHosts
from home import Home

pytestmark = ON_SSH_HOSTS

SOURCE = Path(__file__).parents[1] / "local" / "allreduce.c"
YAML = """\
targets:
  box: {kind: ssh, hosts: [hostb], gpus_per_node: 2}
  pair: {kind: ssh, hosts: [hosta, hostb], gpus_per_node: 2, shared: true, store: both}
"""


@pytest.fixture
def home(tmp_path: Path, ssh_hosts: SshHosts) -> Iterator[Home]:
    made = Home(tmp_path)
    made.environ["PATH"] = f"{ssh_hosts.bin}:{made.environ['PATH']}"
    made.configure(f"{YAML}stores: {{both: {{url: 'file://{tmp_path}/shared'}}}}\n")
    yield made


def test_ranks_on_one_machine_are_those_of_mpi(home: Home) -> None:
    subprocess.run(["mpicc", "-o", str(home.folder / "allreduce"), str(SOURCE)], check=True, timeout=100)
    words = ("-t", "box", "submit", "-Q", "--wait", "-n", "2", "--launcher", "mpi", "./allreduce")
    done = home.gofer(*words, status=None)
    log = home.log("last", "--rank", "all")
    assert done.status == 0, log
    for rank in range(2):
        assert f"mpi rank {rank} of 2 sum 1, RANK {rank} LOCAL_RANK {rank} NODE_RANK 0" in log


def test_ranks_on_several_machines_are_refused_with_the_line_that_works(home: Home) -> None:
    done = home.gofer("-t", "pair", "submit", "-n", "4", "--launcher", "mpi", "hostname", status=None)
    assert done.status != 0
    assert "`launcher: mpi` on `pair` needs all ranks on one machine, and this run has 2" in done.err
    assert "begin the command with `mpirun`" in done.err
