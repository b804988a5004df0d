"""`gofer cluster` against the simulated Azure: what is made, shown, scaled and removed."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from typing import Any

import pytest
from aks.aks_home import AksHome
from home import until
from services.aks_sdk import resources

from simulators.azure.resources import SUBSCRIPTION

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("aks")]


def pool(home: AksHome, name: str = "gpu") -> Any:
    return home.arm("pet", f"/agentPools/{name}")["properties"]


def test_a_cluster_is_made_with_its_group_and_pool_in_one_request(home: AksHome) -> None:
    home.listen()
    found = home.create("pet", "--nodes", "2")
    assert (found["state"], found["is_made"], found["operations"]) == ("Succeeded", True, [])
    assert [(one["name"], one["nodes"], one["mode"]) for one in found["pools"]] == [
        ("sys", 1, "System"),
        ("gpu", 2, "User"),
    ]
    assert len(home.requests("PUT", "/resource")) == 2
    assert home.arm()["tags"] == {"gofer-made": "project"}
    text = home.gofer("cluster", "show", "pet").out
    assert "Succeeded" in text and "Standard_NC4as_T4_v3" in text


def test_nodes_with_gpus_get_the_device_plugin_once(home: AksHome) -> None:
    assert "warning" not in home.gofer("cluster", "create", "pet", *home.where, "--location", "eastus").err
    home.create()
    path = "/kubernetes/pet/apis/apps/v1/namespaces/kube-system/daemonsets"
    _, answer = home.azure.ask("GET", path, token="dummy-token")
    names = [one["metadata"]["name"] for one in answer["items"]]
    assert names == ["gofer-nvidia-device-plugin-gpu"]
    pod = answer["items"][0]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"kubernetes.azure.com/agentpool": "gpu"}


def test_what_runs_on_a_cluster_is_listed_before_it_is_removed(home: AksHome) -> None:
    home.create()
    home.turn(pods={"cluster": "pet", "names": ["research/theirs-0", "kube-system/coredns-1"]})
    shown = home.gofer("cluster", "delete", "pet", "--dry-run").out
    assert "research/theirs-0" in shown and "coredns" not in shown
    found = json.loads(home.gofer("cluster", "delete", "pet", "--dry-run", "--json").out)
    assert [(one["kind"], one["name"]) for one in found["work"]] == [("pod", "research/theirs-0")]


def test_a_second_creation_makes_nothing(home: AksHome) -> None:
    home.create()
    before = home.arm()["eTag"]
    home.listen()
    home.create()
    assert home.requests("PUT", "managedClusters") == []
    assert home.arm()["eTag"] == before


def test_a_pool_with_an_autoscaler_taints_and_spot_nodes(home: AksHome) -> None:
    home.create("pet", "--nodes", "0:4", "--spot", "--taint", "sku=gpu:NoSchedule", "--pool", "cheap")
    found = pool(home, "cheap")
    assert (found["enableAutoScaling"], found["minCount"], found["maxCount"]) == (True, 0, 4)
    assert (found["scaleSetPriority"], found["spotMaxPrice"]) == ("Spot", -1.0)
    assert found["nodeTaints"] == ["sku=gpu:NoSchedule"]
    assert found["gpuProfile"] == {"driver": "Install"}


def test_another_pool_is_added_to_a_cluster_that_is_there(home: AksHome) -> None:
    home.create()
    found = home.create("pet", "--pool", "second")
    assert [one["name"] for one in found["pools"]] == ["sys", "gpu", "second"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--nodes", "9"], "the quota of `Standard NCASv3_T4 Family` in `eastus` has"),
        (["--vm-size", "Standard_NC24ads_A100_v4"], "has 0 cores left"),
        (["--vm-size", "Standard_NC6s_v3"], "`Standard_NC6s_v3` is not offered in `eastus`"),
        (["--location", "atlantis"], "no virtual machines are offered in `atlantis`"),
        (["--nodes", "many"], "`many` is no number of nodes"),
        (["--nodes", "5:1"], "its bounds in the wrong order"),
        (["--pool", "GPU-pool"], "`GPU-pool` cannot be the name of a node pool"),
        (["--taint", "gpu"], "`gpu` is no taint"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    home: AksHome, options: list[str], words: str
) -> None:
    done = home.gofer("cluster", "create", "pet", *home.where, "--location", "eastus", *options, status=None)
    assert done.status in (1, 2)
    assert words in done.err and "hint: " in done.err
    assert not home.has_group()


def test_a_size_that_is_not_offered_is_answered_with_one_that_is(home: AksHome) -> None:
    assert "offered are `Standard_NC4as_T4_v3`" in home.create(
        "pet", "--vm-size", "Standard_NC6s_v3", status=1
    )


def test_an_autoscaler_beyond_the_quota_is_warned_of(home: AksHome) -> None:
    words = ["cluster", "create", "pet", *home.where, "--location", "eastus", "--nodes", "1:20"]
    assert "the autoscaler will stop before" in home.gofer(*words).err


def test_a_failed_creation_says_why_and_can_be_repeated(home: AksHome) -> None:
    home.turn(fail={"kind": "create-cluster", "code": "ZonalAllocationFailed", "message": "No room."})
    assert "ended as Failed: No room (ZonalAllocationFailed)" in home.create(status=1)
    home.turn(fail={"kind": "update-cluster", "code": "StillNone", "message": "No room yet."})
    assert "No room yet" in home.create(status=1)
    assert home.create()["state"] == "Succeeded"


def test_lost_answers_and_refusals_make_one_cluster_and_the_right_count(home: AksHome) -> None:
    home.quick(create_cluster=0.5, update_pool=0.5)
    home.azure.fault("drop-after", "/managedClusters/pet", method="PUT")
    home.azure.fault("status", "/managedClusters/pet", method="PUT", status=429, retry_after="0")
    home.azure.fault("status", "/operations/", method="GET", status=503, count=2, retry_after="0")
    assert home.create()["state"] == "Succeeded"
    home.azure.fault("drop-after", "/agentPools/gpu", method="PUT")
    home.gofer("cluster", "scale", "pet", "3")
    assert (pool(home)["count"], pool(home)["provisioningState"]) == (3, "Succeeded")


def test_scaling_is_on_top_of_the_change_of_somebody_else(home: AksHome) -> None:
    home.create()
    home.quick(update_pool=1.0)
    changed = {**pool(home), "nodeLabels": {"theirs": "yes"}}
    status, _ = home.azure.ask("PUT", home.url("pet", "/agentPools/gpu"), {"properties": changed})
    assert status == 200
    done = home.gofer("cluster", "scale", "pet", "4", "--json")
    assert json.loads(done.out)["pools"][1]["nodes"] == 4
    assert (pool(home)["nodeLabels"], pool(home)["count"]) == ({"theirs": "yes"}, 4)


def test_a_fixed_size_ends_the_autoscaler_and_bounds_start_it(home: AksHome) -> None:
    home.create("pet", "--nodes", "1:3")
    home.gofer("cluster", "scale", "pet", "2")
    assert (pool(home)["enableAutoScaling"], pool(home)["count"]) == (False, 2)
    assert "minCount" not in pool(home) or pool(home)["minCount"] is None
    home.gofer("cluster", "scale", "pet", "3:4")
    assert (pool(home)["minCount"], pool(home)["maxCount"], pool(home)["count"]) == (3, 4, 3)
    home.listen()
    home.gofer("cluster", "scale", "pet", "3:4")
    assert home.requests("PUT", "agentPools") == []


def test_scaling_beyond_the_quota_is_refused(home: AksHome) -> None:
    home.create()
    done = home.gofer("cluster", "scale", "pet", "30", status=1)
    assert "cores left" in done.err and "hint: " in done.err
    assert pool(home)["count"] == 1
    assert "has no pool `gpux`" in home.gofer("cluster", "scale", "pet", "3", "--pool", "gpux", status=2).err


def test_a_cluster_is_removed_with_the_group_that_was_made_for_it(home: AksHome) -> None:
    home.create()
    done = home.gofer("cluster", "delete", "pet", status=2)
    assert "hint: add `--yes pet`" in done.err and home.arm() is not None
    assert "is not the name" in home.gofer("cluster", "delete", "pet", "--yes", "pat", status=2).err
    shown = home.gofer("cluster", "delete", "pet", "--dry-run").out
    assert shown.splitlines()[:2] == ["cluster pet", f"resource group {home.group}"]
    home.gofer("cluster", "delete", "pet", "--yes", "pet")
    assert home.arm() is None
    until(lambda: not home.has_group(), "the group is gone")
    again = home.gofer("cluster", "delete", "pet", *home.where, "--yes", "pet")
    assert "nothing to do" in again.err


def test_what_others_made_stays(home: AksHome) -> None:
    groups = resources(home.azure).resource_groups
    groups.create_or_update(home.group, {"location": "eastus"})
    home.create()
    home.gofer("cluster", "delete", "pet", "--yes", "pet")
    assert home.arm() is None and home.has_group()
    home.create()
    status, _ = home.azure.ask("PATCH", home.url("pet"), {"tags": {"mine": "yes"}})
    assert status == 200
    home.gofer("cluster", "delete", "pet", "--yes", "pet")  # the pool alone was made by gofer
    assert home.arm() is not None and home.arm("pet", "/agentPools/gpu") is None
    done = home.gofer("cluster", "delete", "pet", *home.where, "--yes", "pet", status=1)
    assert "gofer did not make the cluster `pet`" in done.err
    assert "gofer did not make it" in home.create(status=1)


def test_a_group_with_something_else_in_it_stays(home: AksHome) -> None:
    home.create()
    home.create("other")
    home.gofer("cluster", "delete", "pet", "--yes", "pet")
    assert home.arm() is None and home.arm("other") is not None
    home.gofer("cluster", "delete", "other", "--yes", "other")
    until(lambda: not home.has_group(), "the group is gone with the last cluster")


@pytest.mark.parametrize(("typed", "status"), [("pet", 0), ("pat", 1), ("", 1)])
def test_the_name_is_asked_for_on_a_terminal(home: AksHome, typed: str, status: int) -> None:
    home.create()
    leader, follower = pty.openpty()
    os.write(leader, f"{typed}\n".encode())
    argv = home.argv("cluster", "delete", "pet")
    done = subprocess.run(
        argv, cwd=home.folder, env=home.environ, stdin=follower, stderr=follower, stdout=subprocess.PIPE,
        timeout=120, check=False,
    )  # fmt: skip
    os.close(follower)
    os.close(leader)
    assert done.returncode == status
    assert (home.arm() is None) == (status == 0)


def test_the_cluster_of_a_target_needs_no_name(home: AksHome) -> None:
    aks = f"{{subscription_id: {SUBSCRIPTION}, resource_group: {home.group}, cluster: pet, pool: work}}"
    home.configure(f"targets:\n  away: {{kind: kubernetes, aks: {aks}, store: default}}\n")
    home.gofer("cluster", "create", "-t", "away", "--location", "eastus")
    assert home.arm("pet", "/agentPools/work") is not None
    home.gofer("cluster", "scale", "-t", "away", "2")
    assert home.show("away")["pools"][1]["nodes"] == 2


def test_a_cluster_that_nothing_says_where_it_is(home: AksHome) -> None:
    assert "nothing says where the cluster `gone` is" in home.gofer("cluster", "show", "gone", status=2).err
    assert "there is no cluster `gone`" in home.gofer("cluster", "show", "gone", *home.where, status=2).err
    assert "no cluster is named" in home.gofer("cluster", "show", status=2).err
