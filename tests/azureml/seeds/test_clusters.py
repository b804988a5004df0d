"""Philly's list of clusters, `multi_philly_vc.yaml`: a group of targets, each in a workspace of its own."""

from __future__ import annotations

import json
import time

import pytest
from azureml.seeds.layout import SECOND_WORKSPACE, OlderToolHome

from simulators.azure.resources import GROUP, SUBSCRIPTION, workspace_id

pytestmark = [pytest.mark.xdist_group("azure-seeds"), pytest.mark.timeout(900)]

OTHER = workspace_id(SUBSCRIPTION, GROUP, SECOND_WORKSPACE)


@pytest.fixture
def philly(older_home: OlderToolHome) -> OlderToolHome:
    older_home.philly()
    return older_home


def leave(home: OlderToolHome, name: str, workspace: str) -> str:
    home.azure.admin("POST", "/jobs", {"name": name, "workspace": workspace, "command": "python train.py"})
    return name


def listed(home: OlderToolHome, *words: str) -> list[str]:
    return [one["target"] for one in json.loads(home.gofer("list", "runs", *words, "--json").out)]


def test_a_job_is_looked_for_on_all_clusters_of_the_list_and_on_one(philly: OlderToolHome) -> None:
    mark = f"{time.time_ns()}"
    for workspace, target in ((philly.azure.workspace, "wu1"), (OTHER, "sc2")):
        name = leave(philly, f"application_{mark}_{target}", workspace)
        said = philly.gofer("-c", "philly", "q", f"_{target}").err
        assert f"{name} is a job of `{target}`" in said
    done = philly.gofer("-c", "wu1", "q", f"application_{mark}_nowhere", status=2)
    assert "the service of `wu1` knows no such job" in done.err
    done = philly.gofer("-c", "philly", "q", f"application_{mark}_nowhere", status=2)
    assert "the services of `wu1`, `sc2` know no such job" in done.err
    assert sorted(listed(philly, "-c", "philly")) == ["sc2", "wu1"]
    assert listed(philly, "-c", "sc2") == ["sc2"]


def test_jobs_and_nodes_of_all_clusters_of_the_list(philly: OlderToolHome) -> None:
    mark = f"m{time.time_ns()}"
    leave(philly, f"{mark}-a", philly.azure.workspace)
    leave(philly, f"{mark}-b", OTHER)

    def jobs(target: str) -> list[str]:
        found = json.loads(philly.gofer("-c", target, "list", "jobs", "--server", "--json").out)
        return [one["name"] for one in found if one["name"].startswith(mark)]

    assert (sorted(jobs("philly")), jobs("wu1"), jobs("sc2")) == (
        [f"{mark}-a", f"{mark}-b"],
        [f"{mark}-a"],
        [f"{mark}-b"],
    )
    nodes = json.loads(philly.gofer("-c", "philly", "list", "nodes", "--json").out)
    assert [one["target"] for one in nodes] == ["wu1", "wu1", "sc2", "sc2"], nodes
    table = philly.gofer("-c", "philly", "list", "nodes").out.splitlines()
    assert table[0].startswith("TARGET  NAME")
    assert [line.split()[0] for line in table[1:]] == ["wu1", "wu1", "sc2", "sc2"]


def test_a_run_goes_to_the_cluster_of_the_list_that_is_named(philly: OlderToolHome) -> None:
    done = philly.gofer("-c", "sc2", "submit", "nvidia-smi")
    run = philly.ended(done.out)
    assert (run["target"], run["state"], run["gpus"]) == ("sc2", "succeeded", 4)
    assert "rank 0 of 4" in run["log"]
    assert philly.azure.ask("GET", f"{OTHER}/jobs/{run['id']}")[0] == 200
    assert philly.gofer("-c", "philly", "logs").out == philly.gofer("-c", "sc2", "logs").out
    refused = philly.gofer("-c", "philly", "submit", "nvidia-smi", status=2).err
    assert "`philly` is a group of targets, and this command needs one of them: `wu1`, `sc2`" in refused
    assert "hint: `-c wu1` chooses it" in refused
