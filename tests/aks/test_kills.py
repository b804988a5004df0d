"""A client that is killed at any moment leaves one cluster, one pool and the right number of nodes."""

from __future__ import annotations

import time

import pytest
from aks.aks_home import AksHome
from home import until
from services.aks_sdk import containers

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("aks")]
_PAUSES_S = (0.35, 0.7, 1.0, 1.4, 2.0)


def kill_after(home: AksHome, pause_s: float, *words: str) -> None:
    """Start the command and kill it with SIGKILL after the pause."""
    running = home.start(*words)
    time.sleep(pause_s)
    running.kill()
    running.communicate(timeout=60)


def test_a_creation_is_taken_up_by_show(home: AksHome) -> None:
    home.quick(create_cluster=4.0)
    words = ["cluster", "create", "pet", *home.where, "--location", "eastus", "--nodes", "2"]
    running = home.start(*words)
    until(home.arm, "the cluster is being made")
    running.kill()
    running.communicate(timeout=60)
    shown = home.show()
    assert shown["state"] == "Creating"
    assert [(one["what"], one["state"]) for one in shown["operations"]] == [
        ("make the cluster", "InProgress")
    ]
    done = home.show("pet", "--wait")
    assert (done["state"], done["operations"]) == ("Succeeded", [])
    assert [pool["nodes"] for pool in done["pools"]] == [1, 2]


def test_a_creation_that_is_killed_again_and_again_makes_one_cluster(home: AksHome) -> None:
    home.quick(create_cluster=1.5)
    words = ["cluster", "create", "pet", *home.where, "--location", "eastus", "--nodes", "2"]
    home.listen()
    for pause_s in _PAUSES_S:
        kill_after(home, pause_s, *words)
    home.gofer(*words)
    made = home.requests("PUT", "/managedClusters/pet")
    assert len(made) == 1
    found = list(containers(home.azure).managed_clusters.list_by_resource_group(home.group))
    assert [one.name for one in found] == ["pet"]
    assert [(pool["name"], pool["nodes"]) for pool in home.show()["pools"]] == [("sys", 1), ("gpu", 2)]


def test_scaling_that_is_killed_again_and_again_ends_with_the_right_count(home: AksHome) -> None:
    home.create()
    home.quick(update_pool=1.0)
    for at, pause_s in enumerate(_PAUSES_S):
        kill_after(home, pause_s, "cluster", "scale", "pet", str(2 + at % 3))
    home.gofer("cluster", "scale", "pet", "5")
    shown = home.show("pet", "--wait")
    assert [pool["nodes"] for pool in shown["pools"]] == [1, 5]
    assert shown["operations"] == []


def test_a_deletion_that_is_killed_is_completed(home: AksHome) -> None:
    home.create()
    home.quick(delete_cluster=1.0, delete_group=0.5)
    for pause_s in _PAUSES_S:
        kill_after(home, pause_s, "cluster", "delete", "pet", *home.where, "--yes", "pet")
    home.gofer("cluster", "delete", "pet", *home.where, "--yes", "pet")
    until(lambda: not home.has_group(), "the group is gone")
    again = home.gofer("cluster", "delete", "pet", *home.where, "--yes", "pet")
    assert "nothing to do" in again.err
