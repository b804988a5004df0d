"""Nodes on networks of their own: a crash and a pulled cable look as they do on a site."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM_NAMESPACES
from clusters.fixtures import slurm_namespaces as slurm_namespaces
from clusters.fixtures import slurm_namespaces_site as slurm_namespaces_site
from clusters.slurm import Slurm

pytestmark = ON_SLURM_NAMESPACES

SCRIPT = (
    "echo attempt ${SLURM_RESTART_COUNT:-0} on $(hostname); [ ${SLURM_RESTART_COUNT:-0} = 1 ] || sleep 300"
)


def submit(slurm: Slurm, folder: Path) -> str:
    """A job on the first node that would run for long, but ends at once when it is started again."""
    options = ("--requeue", "--open-mode=append", "--output=said")
    job = slurm.sbatch(SCRIPT, *options, cwd=folder)
    slurm.until(lambda: attempts_logged(folder) == [f"attempt 0 on {slurm.nodes[0]}"], "the first attempt")
    return job


def attempts_logged(folder: Path) -> list[str]:
    path = folder / "said"
    return [line for line in path.read_text().splitlines() if "attempt" in line] if path.exists() else []


def test_each_node_has_an_address_of_its_own_that_this_machine_reaches(slurm_namespaces: Slurm) -> None:
    slurm = slurm_namespaces
    listing = slurm.call("srun", "-N3", "sh", "-c", "ip -4 -o addr show dev eth0")
    assert all(f" {node.address}/24 " in listing for node in slurm.site.nodes)


@pytest.mark.slow
def test_the_job_of_a_node_that_crashed_runs_again_elsewhere(slurm_namespaces: Slurm, tmp_path: Path) -> None:
    slurm = slurm_namespaces
    job = submit(slurm, tmp_path)
    slurm.kill_node(slurm.nodes[0])
    slurm.until_state(job, "COMPLETED")
    assert attempts_logged(tmp_path) == [f"attempt {at} on {slurm.nodes[at]}" for at in (0, 1)]
    assert slurm.node_state(slurm.nodes[0]) == "down*"


@pytest.mark.slow
def test_a_node_that_was_cut_off_loses_its_job_and_comes_back_idle(
    slurm_namespaces: Slurm, tmp_path: Path
) -> None:
    slurm = slurm_namespaces
    job = submit(slurm, tmp_path)
    slurm.cut_node(slurm.nodes[0])
    slurm.until_state(job, "COMPLETED")
    assert slurm.nodes[0] in slurm.pids
    slurm.heal()
    # Until it heard of the controller again, the node ran an attempt that had long been given up.
    look = ("srun", "-w", slurm.nodes[0], "ps", "-e", "-o", "args=")
    slurm.until(lambda: "sleep 300" not in slurm.call(*look).splitlines(), "the end of the first attempt")
