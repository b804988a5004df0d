"""`launcher: mpi` on a real Slurm: mpirun starts its daemons by srun, inside the allocation."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from home import until
from slurm.slurm_home import SlurmHome

pytestmark = ON_SLURM

SOURCE = Path(__file__).parents[1] / "local" / "allreduce.c"


@pytest.fixture
def home(tmp_path: Path, slurm: Slurm) -> SlurmHome:
    return SlurmHome(tmp_path, slurm)


@pytest.fixture
def program(tmp_path: Path) -> str:
    """The MPI program, compiled to where all nodes see it."""
    binary = tmp_path / "allreduce"
    subprocess.run(["mpicc", "-o", str(binary), str(SOURCE)], check=True, timeout=100)
    return str(binary)


def test_eight_ranks_on_two_nodes_meet(home: SlurmHome, program: str) -> None:
    done = home.finish("-n", "8", "--launcher", "mpi", program)
    assert (done["state"], done["nodes"]) == ("succeeded", 2), done["detail"]
    output = [home.log(done["id"], "--rank", str(rank)) for rank in range(8)]
    assert output == [
        f"mpi rank {rank} of 8 sum 28, RANK {rank} LOCAL_RANK {rank % 4} NODE_RANK {rank // 4} "
        f"OMPI_COMM_WORLD_LOCAL_RANK {rank % 4}\n"
        for rank in range(8)
    ]


def test_mpirun_as_the_command_starts_once_and_reaches_both_nodes(home: SlurmHome, program: str) -> None:
    """Its daemons go by srun inside the allocation; how many ranks a node has is in the hostfile."""
    words = ("mpirun", "--allow-run-as-root", "-np", "8", "sh", "-c", f"hostname; {program}")
    done = home.finish("-n", "8", *words)
    assert (done["state"], done["nodes"], done["procs"]) == ("succeeded", 2, 1), home.log(done["id"])
    output = home.log(done["id"]).splitlines()
    assert len([line for line in output if "of 8 sum 28" in line]) == 8
    hosts = [line for line in output if "sum" not in line]
    assert sorted(hosts.count(host) for host in set(hosts)) == [4, 4]


def test_the_rank_that_fails_is_named(home: SlurmHome, program: str) -> None:
    done = home.finish("-n", "8", "--launcher", "mpi", program, "exit", "5")
    failure = done["first_failure"]
    assert (done["state"], done["exit_code"]) == ("failed", 5)
    assert (failure["node"], failure["rank"]) == (1, 5)


def test_an_abort_ends_ranks_and_daemons(home: SlurmHome, program: str) -> None:
    run = home.submit("-n", "8", "--launcher", "mpi", program, "exit", "99")
    home.until_logged(run, "sum 28", rank=7)
    home.gofer("abort", run)
    (ended,) = home.wait(run)
    assert ended["state"] == "cancelled"
    until(
        lambda: not [one for one in home.processes().values() if "orted" in one or "mpirun" in one],
        "no daemon",
    )
