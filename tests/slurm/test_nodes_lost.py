"""Nodes that crash or are cut off while a run is on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM_NAMESPACES
from clusters.fixtures import slurm_namespaces as slurm_namespaces
from clusters.fixtures import slurm_namespaces_site as slurm_namespaces_site
from clusters.slurm import Slurm
from slurm.slurm_home import SlurmHome

pytestmark = [*ON_SLURM_NAMESPACES, pytest.mark.slow]

SCRIPT = 'echo "attempt $GOFER_ATTEMPT on $(hostname)"; [ $GOFER_ATTEMPT = 2 ] || sleep 300'


@pytest.fixture
def home(tmp_path: Path, slurm_namespaces: Slurm) -> SlurmHome:
    return SlurmHome(tmp_path, slurm_namespaces)


def test_a_run_whose_node_crashes_is_started_again_elsewhere(home: SlurmHome) -> None:
    run = home.submit("-n", "8", "sh", "-c", SCRIPT)
    for rank in (0, 7):  # one on each node: the node that crashes has logged its line
        home.until_logged(run, "attempt 1", rank=rank)
    first, *others = home.slurm.nodes
    home.slurm.kill_node(first)
    (done,) = home.wait(run)
    attempts = [(one["number"], one["state"], one["reason"]) for one in done["attempts"]]
    assert (done["state"], attempts[1]) == ("succeeded", (2, "succeeded", None))
    assert attempts[0][0:2] == (1, "lost") and attempts[0][2] in ("node-failure", "preempted")
    assert home.log(run, "--attempt", "1").split() == ["attempt", "1", "on", first]
    assert home.log(run, "--attempt", "2").split() == ["attempt", "2", "on", others[0]]


def test_a_node_that_was_cut_off_does_not_disturb_the_next_attempt(home: SlurmHome) -> None:
    run = home.submit("sh", "-c", SCRIPT)
    home.until_logged(run, "attempt 1")
    home.slurm.cut_node(home.slurm.nodes[0])
    (done,) = home.wait(run)
    assert (done["state"], len(done["attempts"])) == ("succeeded", 2)
    home.slurm.heal()
    seen = home.view(run)
    assert (seen["state"], len(seen["attempts"])) == ("succeeded", 2)
