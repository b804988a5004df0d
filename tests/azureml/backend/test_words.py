"""Pure functions: SSH endpoints, why runs wait, which log comes first, pages, and jobs of others."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from gofer.backends.azureml import facts, shell
from gofer.backends.azureml.jobs import Nodes, read_job
from gofer.backends.azureml.logs import order
from gofer.backends.azureml.names import Workspace, environment_of_image, run_page, target_page
from gofer.backends.azureml.options import AzureOptions
from gofer.backends.azureml.shell import SshClientFiles, SshEndpoint
from gofer.backends.azureml.status import made_at
from gofer.core.states import State
from gofer.transport.azure.cloud import find_cloud

RUN = "r261116-091233-k9qd4x"


def job(*, tags: dict[str, str] | None = None, endpoint: str = "") -> dict[str, Any]:
    services = {"Studio": {"jobServiceType": "Studio", "endpoint": "https://ml.azure.com/x"}}
    if endpoint:
        services["ssh"] = {"jobServiceType": "SSH", "endpoint": endpoint}
    return {"name": RUN, "properties": {"tags": tags or {}, "services": services}}


@pytest.mark.parametrize(
    ("said", "endpoint"),
    [
        (job(), None),
        (job(tags={"ssh": "ssh://me@10.0.0.1:2222"}), SshEndpoint("10.0.0.1", 2222, "me")),
        (job(endpoint="ssh://10.0.0.2"), SshEndpoint("10.0.0.2", None, "azureuser")),
        (
            job(endpoint="wss://x.example/a?b=c"),
            SshEndpoint("x.example", None, "azureuser", "wss://x.example/a?b=c"),
        ),
        (job(endpoint="https://x.example"), None),
    ],
)
def test_ssh_endpoints(said: dict[str, Any], endpoint: SshEndpoint | None) -> None:
    assert shell.find_ssh_endpoint(said) == endpoint


def test_the_door_that_the_run_history_knows() -> None:
    closed: dict[str, Any] = {"type": "SSH", "status": "Stopped", "endpoint": None, "properties": {}}
    opened = {**closed, "properties": {"ProxyEndpoint": "wss://ssh-1.example/x"}}
    other = {"type": "JupyterLab", "endpoint": "wss://lab.example"}
    assert shell.find_ssh_endpoint(job(), {"lab": other, "ssh": closed}) is None
    quotas = shell.find_ssh_endpoint(job(endpoint="wss://elsewhere.example"), {"lab": other, "ssh": opened})
    assert quotas == SshEndpoint("ssh-1.example", None, "azureuser", "wss://ssh-1.example/x")


def test_the_node_of_a_run() -> None:
    nodes = [
        {"runId": "other", "publicIpAddress": "10.0.0.1", "port": 50000},
        {"runId": RUN, "publicIpAddress": "10.0.0.2", "port": 50001},
    ]
    assert shell.find_ssh_endpoint(job(), nodes=nodes) == SshEndpoint("10.0.0.2", 50001)
    assert shell.find_ssh_endpoint(job(), nodes=[{"runId": RUN, "publicIpAddress": None}]) is None


def test_the_words_for_ssh() -> None:
    here = SshClientFiles("/keys/id", "/state/azure")
    words = shell.words(SshEndpoint("10.0.0.1", 2222, "me"), RUN, ["echo", "a b; c"], here, terminal=False)
    assert words[-3:] == ["--", "me@10.0.0.1", "echo 'a b; c'"]
    assert words[words.index("-i") : words.index("-i") + 2] == ["-i", "/keys/id"]
    assert f"HostKeyAlias={RUN}-10.0.0.1-2222" in words and "-T" in words and words[-5:-3] == ["-p", "2222"]
    bridge = shell.words(SshEndpoint("x", None, "u", "wss://x/%41 b"), RUN, [], here, terminal=True)
    proxy = next(word for word in bridge if word.startswith("ProxyCommand="))
    assert proxy.endswith("gofer.transport.azure.bridge 'wss://x/%%41 b' /state/azure") and "-t" in bridge
    assert bridge[-2:] == ["--", "u@x"]


def test_the_key_that_a_shell_is_opened_with(tmp_path: Path) -> None:
    """The other half of the one that the job was given: ssh itself does not look into HOME."""
    folder = tmp_path / ".ssh"
    folder.mkdir()
    assert shell.private_key(None, str(tmp_path)) is None
    for name in ("id_ed25519", "id_rsa", "id_rsa.pub", "own", "own.pub"):
        (folder / name).write_text("ssh-rsa dummy\n")
    assert shell.public_key(None, str(tmp_path)) == "ssh-rsa dummy"
    assert shell.private_key(None, str(tmp_path)) == str(folder / "id_rsa")
    assert shell.private_key(f"{folder}/own.pub", str(tmp_path)) == str(folder / "own")
    assert shell.private_key("ssh-ed25519 dummy", str(tmp_path)) is None


def test_logs_in_the_order_people_want_them() -> None:
    names = [
        "user_logs/std_log.txt",
        "user_logs/std_log_process_0.txt",
        "user_logs/std_log_process_1.txt",
        "user_logs/std_log_process_10.txt",
        "azureml-logs/70_driver_log_0.txt",
        "azureml-logs/70_driver_log_1.txt",
        "azureml-logs/55_azureml-execution.txt",
        "system_logs/lifecycler/lifecycler.log",
    ]
    mixed = random.Random(1).sample(names, len(names))
    assert sorted(mixed, key=order) == names


def quota(used: int, limit: int, tier: str = "Premium") -> dict[str, object]:
    return {"location": "eastus", "tier": tier, "used": used, "limit": limit}


@pytest.mark.parametrize(
    ("status", "around", "words"),
    [
        ("Queued", {"quota": [quota(8, 8)]}, "is used up (Premium in eastus: 8 of 8)"),
        ("Queued", {"quota": [quota(8, 8), quota(1, 8)]}, "has quota left"),
        ("Queued", {"max_nodes": {"free": 0, "total": 4}, "nodes": {"busy": 4}}, "all 4 nodes"),
        (
            "Queued",
            {"max_nodes": {"free": 2, "total": 4}, "nodes": {"busy": 1, "preparing": 1}},
            "of at most 4 nodes, 1 are busy",
        ),
        ("Queued", {}, "not given it nodes yet"),
        ("Paused", {}, "the service took back its nodes"),
        ("Preparing", {}, "environment is being prepared"),
    ],
)
def test_why_runs_wait(status: str, around: dict[str, object], words: str) -> None:
    quotas = facts.waiting(status, {}, around)
    assert quotas is not None and words in quotas.why


def test_a_run_that_runs_does_not_wait() -> None:
    assert facts.waiting("Running", {}, {}) is None
    assert facts.waiting("Queued", {"amlk8s status": "running"}, {}) is None


def test_the_quotas_that_a_run_counts_against() -> None:
    rows: list[dict[str, object]] = [
        {**quota(1, 2, tier), "location": place, "series": series}
        for tier in ("Premium", "Basic")
        for place in ("eastus", "westus")
        for series in ("NDv2", "NDv4")
    ]
    types = [{"name": "ND40_v2g1", "series": "NDv2"}, {"name": "ND12_v4g1", "series": "NDv4"}]
    around = {"quota": rows, "instance_types": types}

    def quotas(**more: Any) -> list[tuple[object, object, object]]:
        options = AzureOptions(platform="singularity", **more)
        return [(one["tier"], one["location"], one["series"]) for one in facts.quotas_for(options, around)]

    assert quotas(sla="basic", instance_type="Singularity.ND40_v2g1", locations=("westus",)) == [
        ("Basic", "westus", "NDv2")
    ]
    assert len(quotas(instance_type="ND40_v2g1")) == 2
    assert len(quotas(instance_type="unheard-of")) == 4


def test_a_cluster_that_says_little() -> None:
    assert facts.quotas({}) == [] and facts.cluster_facts({"properties": {}}, {})["quota"] == []
    assert facts.compute_facts({"properties": {"computeType": "AmlCompute"}})["max_nodes"] is None


def test_a_job_that_says_little() -> None:
    quotas = read_job({"name": "x"}, Nodes("/computes/a", 4))
    assert (quotas.name, quotas.state, quotas.status, quotas.nodes, quotas.gpus) == (
        "x",
        State.UNKNOWN,
        "Unknown",
        1,
        None,
    )


def test_instance_types_of_kubernetes_as_rows() -> None:
    types = {
        "small": {"resources": {"limits": {"nvidia.com/gpu": 1, "memory": "8Gi"}}},
        "large": {"resources": {"limits": {"nvidia.com/gpu": 8}}},
    }
    more = {"instanceTypes": types, "defaultInstanceType": "small"}
    quotas = facts.compute_facts({"properties": {"computeType": "Kubernetes", "properties": more}})
    assert quotas["instance_types"] == [
        {"name": "small", "gpu": 1, "memory": "8Gi", "default": "yes"},
        {"name": "large", "gpu": 8, "memory": None, "default": ""},
    ]


def test_pages() -> None:
    cloud, where = find_cloud({"HOME": "/nonexistent"}, "/nonexistent"), Workspace("s", "g", "w")
    assert run_page(cloud, where, RUN, "t") == f"https://ml.azure.com/runs/{RUN}?wsid={where.id}&tid=t"
    assert "/compute/c/details?" in target_page(cloud, where, AzureOptions(compute="c"))
    assert "/experiments?" in target_page(cloud, where, AzureOptions(platform="singularity"))


def test_when_a_run_was_made() -> None:
    assert made_at(RUN) == 1794820353.0
    assert made_at("jianfw_1563257309_60ce2fc7") is None


def test_environments_of_images() -> None:
    assert environment_of_image("a.azurecr.io/Team/My_Image:1.2@sha256:x")[0] == "gofer-my-image"
    assert environment_of_image("a:1") != environment_of_image("a:2")
