"""Room for jobs: nodes of a compute, quotas of a virtual cluster, preemption, and nodes that fail."""

from __future__ import annotations

import time
from typing import Any

import pytest
from home import until
from services.azure import Azure
from services.azure_jobs import alive, body, cluster_body, submit, wait_for_output

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-sim-clusters")]


def cluster(azure: Azure) -> str:
    return f"{azure.workspace.split('/workspaces/')[0]}/virtualClusters/sim-vc?api-version=2021-03-01-preview"


def used(azure: Azure, tier: str, series: str = "NDv2") -> int:
    _, shown = azure.ask("GET", cluster(azure))
    rows = [row for quota in shown["properties"]["managed"]["quotas"].values() for row in quota["limits"]]
    return sum(row["used"] for row in rows if row["slaTier"] == tier and row["id"] == series)


def counts(azure: Azure, compute: str) -> Any:
    _, shown = azure.arm("GET", f"/computes/{compute}")
    return shown["properties"]["properties"]["nodeStateCounts"]


def runs_of(azure: Azure, name: str, wanted: int) -> None:
    """Waits until the job's command has started that often."""
    deadline = time.monotonic() + 120
    while azure.job(name)["attempt"] < wanted or azure.job(name)["status"] != "Running":
        assert time.monotonic() < deadline, azure.job(name)["history"]
        time.sleep(0.1)


def test_a_job_waits_for_nodes(azure: Azure) -> None:
    azure.admin("POST", "/computes", {"name": "small", "kind": "AmlCompute", "nodes": 1})
    submit(azure, "holds", "sleep 600", compute="small")
    submit(azure, "waits", "true", compute="small")
    azure.wait("holds", "Running")
    azure.wait("waits", "Queued")
    assert (counts(azure, "small")["runningNodeCount"], counts(azure, "small")["idleNodeCount"]) == (1, 0)
    _, nodes = azure.arm("POST", "/computes/small/listNodes")
    assert [(node["nodeState"], node["runId"]) for node in nodes["nodes"]] == [("running", "holds")]
    azure.arm("POST", "/jobs/holds/cancel")
    assert azure.wait("waits")["status"] == "Completed"
    assert counts(azure, "small")["idleNodeCount"] == 1


def test_nothing_runs_while_held(azure: Azure) -> None:
    azure.admin("POST", "/hold", {"held": True})
    submit(azure, "held", "true")
    azure.wait("held", "Queued")
    azure.admin("POST", "/hold", {"held": False})
    assert azure.wait("held")["status"] == "Completed"


def test_the_quota_of_a_tier_is_enforced_and_shown(azure: Azure) -> None:
    for name in ("first", "second", "third"):
        wanted = cluster_body(azure, "sleep 600", tier="Standard", kind="ND40rs_v2", nodes=2)
        assert azure.arm("PUT", f"/jobs/quota-{name}", wanted)[0] == 201
    azure.wait("quota-first", "Running")
    azure.wait("quota-second", "Running")
    azure.wait("quota-third", "Queued")
    assert {azure.job("quota-first")["location"], azure.job("quota-second")["location"]} == {
        "eastus",
        "southcentralus",
    }
    assert (used(azure, "Standard"), used(azure, "Premium")) == (32, 0)
    other = cluster_body(azure, "true", tier="Premium", kind="ND40rs_v2", nodes=2)
    assert azure.arm("PUT", "/jobs/quota-other", other)[0] == 201
    assert azure.wait("quota-other")["status"] == "Completed"
    azure.arm("POST", "/jobs/quota-first/cancel")
    azure.wait("quota-third", "Running")
    for name in ("second", "third"):
        azure.arm("POST", f"/jobs/quota-{name}/cancel")
        azure.wait(f"quota-{name}")


def test_more_than_the_limit_is_refused(azure: Azure) -> None:
    status, answer = azure.arm(
        "PUT", "/jobs/too-much", cluster_body(azure, "true", kind="ND40rs_v2", nodes=3)
    )
    assert status == 400
    assert "asks for 24 of NDv2 in the Basic tier" in answer["error"]["message"]
    status, answer = azure.arm("PUT", "/jobs/too-odd", cluster_body(azure, "true", kind="X1"))
    assert status == 400
    assert "Singularity.X1" in answer["error"]["message"]


def test_a_preempted_job_pauses_and_runs_again(azure: Azure) -> None:
    command = "trap 'echo told; exit 1' TERM; echo began; sleep 600 & wait"
    azure.arm("PUT", "/jobs/basic", cluster_body(azure, command))
    wait_for_output(azure, "basic", "began")
    azure.admin("POST", "/jobs/basic/preempt", {})
    azure.wait("basic", "Paused")
    assert used(azure, "Basic") == 0
    azure.admin("POST", "/jobs/basic/resume", {})
    wait_for_output(azure, "basic", "began", times=2)
    azure.arm("POST", "/jobs/basic/cancel")
    job = azure.wait("basic")
    assert job["status"] == "Canceled"
    words = [word for word, _ in job["history"]]
    assert words[words.index("Paused") :][:4] == ["Paused", "Queued", "Preparing", "Running"]
    assert azure.log("basic").split() == ["began", "told", "began", "told"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_node_fails_after_one_of_its_ranks_has_ended(azure: Azure, restart: bool) -> None:
    name = f"half-{restart}".lower()
    distribution = {"distributionType": "PyTorch", "processCountPerInstance": 2}
    command = "[ $RANK = 1 ] && { echo up; exec sleep 600; }; echo done"
    submit(azure, name, command, distribution=distribution)
    first, other = (f"user_logs/std_log_process_{rank}.txt" for rank in range(2))
    wait_for_output(azure, name, "done", file=first)
    wait_for_output(azure, name, "up", file=other)
    until(lambda: not alive(azure.job(name)["pids"]["0"]), "the first rank is gone")
    azure.admin("POST", f"/jobs/{name}/fail-node", {"restart": restart})
    if not restart:
        assert azure.wait(name)["error"]["innerError"]["code"] == "NodeFailure"
        return
    wait_for_output(azure, name, "up", times=2, file=other)
    azure.arm("POST", f"/jobs/{name}/cancel")
    assert azure.wait(name)["status"] == "Canceled"


def test_a_paused_job_can_be_cancelled(azure: Azure) -> None:
    azure.arm("PUT", "/jobs/paused", cluster_body(azure, "sleep 600"))
    runs_of(azure, "paused", 1)
    azure.admin("POST", "/jobs/paused/preempt", {})
    azure.wait("paused", "Paused")
    azure.arm("POST", "/jobs/paused/cancel")
    assert azure.wait("paused")["status"] == "Canceled"


def test_a_preemption_may_end_by_itself(azure: Azure) -> None:
    azure.arm("PUT", "/jobs/soon", cluster_body(azure, "sleep 600"))
    runs_of(azure, "soon", 1)
    azure.admin("POST", "/jobs/soon/preempt", {"resume_s": 0.5})
    runs_of(azure, "soon", 2)
    azure.arm("POST", "/jobs/soon/cancel")
    azure.wait("soon")


def test_a_node_that_fails_takes_the_job_with_it(azure: Azure) -> None:
    submit(azure, "node", "sleep 600")
    runs_of(azure, "node", 1)
    azure.admin("POST", "/jobs/node/fail-node", {})
    job = azure.wait("node")
    assert (job["status"], job["error"]["innerError"]["code"]) == ("Failed", "NodeFailure")
    submit(azure, "node-again", "sleep 600")
    runs_of(azure, "node-again", 1)
    azure.admin("POST", "/jobs/node-again/fail-node", {"restart": True})
    runs_of(azure, "node-again", 2)
    azure.arm("POST", "/jobs/node-again/cancel")
    azure.wait("node-again")


def test_unusable_nodes_are_not_used(azure: Azure) -> None:
    azure.admin(
        "POST", "/computes", {"name": "worn", "kind": "AmlCompute", "nodes": 2, "unusable": ["tvmps_worn_0"]}
    )
    assert counts(azure, "worn")["unusableNodeCount"] == 1
    submit(azure, "worn", "true", compute="worn")
    assert azure.wait("worn")["nodes"] == ["tvmps_worn_1"]


def test_kubernetes_tells_its_state_in_a_tag(azure: Azure) -> None:
    submit(
        azure,
        "itp",
        "sleep 600",
        compute="itp-cluster",
        resources={"instanceType": "gpu4"},
        tags={"mine": "1"},
    )
    runs_of(azure, "itp", 1)
    _, shown = azure.arm("GET", "/jobs/itp")
    assert shown["properties"]["tags"] == {"mine": "1", "amlk8s status": "running"}
    azure.admin("POST", "/jobs/itp/become", {"status": "Queued"})
    _, shown = azure.arm("GET", "/jobs/itp")
    assert (shown["properties"]["status"], shown["properties"]["tags"]["amlk8s status"]) == (
        "Queued",
        "running",
    )
    azure.admin("POST", "/jobs/itp/become", {"status": ""})
    azure.arm("POST", "/jobs/itp/cancel")
    azure.wait("itp")


def test_kubernetes_has_the_instance_types_that_it_lists(azure: Azure) -> None:
    wanted = body(azure, "true", compute="itp-cluster", resources={"instanceType": "gpu2"})
    status, answer = azure.arm("PUT", "/jobs/itp-odd", wanted)
    assert (status, answer["error"]["code"]) == (400, "UserError")
    assert "'gpu2'" in answer["error"]["message"]
    assert "gpu1, gpu4, gpu8" in answer["error"]["message"]
    submit(azure, "itp-default", "true", compute="itp-cluster")
    assert azure.wait("itp-default")["status"] == "Completed"


def test_more_places_can_be_made(azure: Azure) -> None:
    wanted = {"subscription": "s2", "group": "g2", "name": "w2", "account": "dummytwo"}
    made = azure.admin("POST", "/workspaces", {**wanted, "computes": [{"name": "c2", "nodes": 2}]})
    _, listed = azure.ask("GET", f"{made['id']}/computes")
    assert [one["name"] for one in listed["value"]] == ["c2"]
    _, subscriptions = azure.ask("GET", "/subscriptions?api-version=2022-12-01")
    assert "s2" in [one["subscriptionId"] for one in subscriptions["value"]]
    azure.admin("POST", "/virtualclusters", {"name": "tiny", "limits": {"NDv2": {"Premium": 1}}})
    _, shown = azure.ask("GET", cluster(azure).replace("sim-vc", "tiny"))
    limits = shown["properties"]["managed"]["quotas"]["eastus"]["limits"]
    assert {row["slaTier"]: row["limit"] for row in limits} == {"Premium": 1, "Standard": 0, "Basic": 0}
    provider = "/subscriptions/s2/providers/Microsoft.MachineLearningServices"
    path = f"{provider}/locations/eastus/instancetypeseries?api-version=2021-03-01-preview"
    _, series = azure.ask("GET", path)
    assert {"name", "numberOfGPUs", "instanceTypeSeriesId"} <= series["value"][0].keys()
