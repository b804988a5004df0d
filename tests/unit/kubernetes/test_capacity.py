"""What a cluster has, what is free, and what can never fit: from nodes, pods and quotas of the API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gofer.backends.base import NodeFacts
from gofer.backends.kubernetes.capacity import (
    PodShape,
    Survey,
    check_fit,
    describe,
    explain_taints,
    find_misfit,
    find_quota_misfit,
    nodes_of,
    requests_of,
    shape_of,
    tolerates,
)
from gofer.backends.kubernetes.node_room import trim_nodes
from gofer.errors import CheckFailed
from gofer.ops.runs.target_views import fact

GPU = "nvidia.com/gpu"


def node(name: str, *, gpus: int = 8, ready: str = "True", **more: Any) -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", **more.pop("labels", {})}
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": more,
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]},
    }


def pod(node: str, gpus: int, cpu: str = "1") -> dict[str, Any]:
    requests = {"cpu": cpu, GPU: str(gpus)}
    return {"spec": {"nodeName": node, "containers": [{"resources": {"requests": requests}}]}}


def quota(name: str = "team", *, used: dict[str, str] | None = None, **hard: str) -> dict[str, Any]:
    limits = {key.replace("_", "."): value for key, value in hard.items()}
    return {
        "metadata": {"name": name},
        "spec": {"hard": limits},
        "status": {"hard": limits, "used": used or {}},
    }


def shape(gpus: int = 0, **more: Any) -> PodShape:
    return shape_of({"containers": [{"resources": {"limits": {GPU: gpus} if gpus else {}}}], **more})


def test_the_nodes_with_what_is_free() -> None:
    nodes = [
        node("c", ready="Unknown"),
        node("b"),
        node("a"),
        node("d", unschedulable=True),
        node("e", gpus=0),
    ]
    found = nodes_of(Survey("runs", nodes, [pod("a", 6), pod("b", 8), pod("b", 0, "500m"), pod("gone", 8)]))
    assert found is not None
    assert [(one.name, one.state, one.gpus_free, one.cpus_free) for one in found] == [
        ("a", "mixed", 2, 63),
        ("b", "busy", 0, 62),
        ("c", "down", 0, 0),
        ("d", "down", 0, 0),
        ("e", "free", 0, 64),
    ]
    assert found[0] == NodeFacts(
        "a", "mixed", "Ready", 64, 63, 512 << 10, 8, 2, "NVIDIA-H100-80GB-HBM3", partitions=()
    )
    assert [one.detail for one in found[2:4]] == ["not answering", "SchedulingDisabled"]


def test_without_the_right_to_list_nodes_the_quota_is_shown() -> None:
    survey = Survey("runs", None, quotas=[quota(requests_cpu="8", used={"requests.cpu": "2"})])
    assert nodes_of(survey) is None
    found = describe(survey)
    assert found["quota"] == [{"quota": "team", "of": "requests.cpu", "used": "2", "limit": "8"}]
    assert "your credential may not list them" in str(found["not_seen"])


def test_the_gpus_by_type_as_target_show_prints_them() -> None:
    old = node("old", gpus=4, labels={"nvidia.com/gpu.product": "Tesla-V100"})
    found = describe(Survey("runs", [node("a"), node("b"), old], [pod("a", 8)]))
    assert fact("gpus", found["gpus"]) == ("gpus", "12 of 20 free")
    assert fact("gpu_types", found["gpu_types"])[1].splitlines()[1:] == [
        "NVIDIA-H100-80GB-HBM3     8     16      2",
        "Tesla-V100                4      4      1",
    ]
    assert "not_seen" not in found


def test_pods_of_other_namespaces_that_are_not_seen() -> None:
    found = describe(Survey("runs", [node("a")], sees_all_pods=False))
    assert found["not_seen"] == "pods outside the namespace `runs`: nodes may be fuller than they seem"


@pytest.mark.parametrize(
    ("wanted", "count", "words"),
    [
        (shape(8), 2, None),
        (shape(4), 4, None),
        (shape(8), 3, "only 2 of its 3 pods fit on the 3 nodes: 1 node has no GPUs"),
        (shape(16), 1, "its pods fit on none of the 3 nodes: 2 nodes have only 8 GPUs, 1 node has no GPUs"),
        (
            shape(1, nodeSelector={"zone": "a"}),
            1,
            "its pods fit on none of the 3 nodes: 3 nodes have not the label `zone=a`",
        ),
        (PodShape({"cpu": 65.0}), 1, "its pods fit on none of the 3 nodes: 3 nodes have only 64 CPUs"),
        (
            PodShape({"memory": 2.0**40}),
            1,
            "its pods fit on none of the 3 nodes: 3 nodes have only 512.0 GiB of memory",
        ),
        (PodShape({"pods": 1.0}), 330, None),
    ],
)
def test_what_can_never_fit(wanted: PodShape, count: int, words: str | None) -> None:
    nodes = [node("a"), node("b", ready="Unknown"), node("c", gpus=0)]
    assert find_misfit(nodes, wanted, count) == words


def test_a_taint_keeps_a_pod_away_unless_it_is_tolerated_or_passes() -> None:
    taints = [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}]
    tainted = [node("a", taints=taints)]
    assert (
        find_misfit(tainted, shape(8), 1)
        == "its pods fit on none of the 1 node: 1 node has the taint `sku=gpu`"
    )
    assert find_misfit(tainted, shape(8, tolerations=[{"key": "sku", "operator": "Exists"}]), 1) is None
    passing = [
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "x", "effect": "PreferNoSchedule"},
    ]
    assert find_misfit([node("a", taints=passing)], shape(8), 1) is None


def test_the_taints_that_keep_a_pod_away() -> None:
    def tainted(key: str, value: str = "") -> dict[str, Any]:
        return node("n", taints=[{"key": key, "value": value, "effect": "NoSchedule"}])

    nodes = [
        tainted("sku", "gpu"),
        tainted("sku", "gpu"),
        tainted("node.kubernetes.io/unreachable"),
        node("free"),
    ]
    assert explain_taints(nodes, []) == [
        "2 nodes have the taint `sku=gpu`, which the run does not tolerate",
        "1 node is not answering",
    ]
    assert explain_taints(nodes, [{"operator": "Exists"}]) == []


@pytest.mark.parametrize(
    ("toleration", "is_enough"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "sku", "value": "gpu"}, True),
        ({"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}, True),
        ({"key": "sku", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "sku", "value": "cpu"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({}, False),
    ],
)
def test_a_toleration(toleration: dict[str, Any], is_enough: bool) -> None:
    assert tolerates(toleration, {"key": "sku", "value": "gpu", "effect": "NoSchedule"}) == is_enough


def test_the_nodes_of_one_affinity_count_and_alternatives_do_not() -> None:
    expression = {"key": "zone", "operator": "In", "values": ["a", "b"]}

    def affinity(*terms: Any) -> PodShape:
        required = {"nodeSelectorTerms": [{"matchExpressions": [term]} for term in terms]}
        return shape_of(
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
        )

    assert affinity(expression).labels == {"zone": ("a", "b")}
    assert affinity(expression, expression).labels == {}


def test_what_a_pod_requests() -> None:
    spec = {
        "containers": [{"resources": {"requests": {"cpu": "1"}, "limits": {GPU: 2, "cpu": "4"}}}, {}],
        "initContainers": [
            {"resources": {"requests": {"cpu": "3"}}},
            {"resources": {"requests": {"cpu": "500m"}}, "restartPolicy": "Always"},
        ],
    }
    assert requests_of(spec) == {"cpu": 3.0, GPU: 2.0}


def test_a_quota_that_is_smaller_than_the_run() -> None:
    known = [quota(), quota("pods", pods="3")]
    known[0]["spec"]["hard"] = {f"requests.{GPU}": "8"}
    assert find_quota_misfit(known, shape(8), 1) is None
    words = "it asks for 16 GPUs, and the quota `team` of the namespace allows 8"
    assert find_quota_misfit(known, shape(8), 2) == words
    assert (
        find_quota_misfit(known, shape(0), 4)
        == "it asks for 4 pods, and the quota `pods` of the namespace allows 3"
    )
    known[0]["spec"]["scopes"] = ["BestEffort"]
    assert find_quota_misfit(known, shape(8), 2) is None


def test_a_run_that_can_never_fit_is_refused_unless_the_cluster_may_grow() -> None:
    with pytest.raises(CheckFailed, match="can never start on the target `my lab`") as caught:
        check_fit(Survey("runs", [node("a")]), shape(16), 1, target="my lab")
    assert "`gofer list nodes -t 'my lab'`" in str(caught.value.hint)
    grows = [node("a", labels={"kubernetes.azure.com/agentpool": "gpu"})]
    check_fit(Survey("runs", grows), shape(16), 1, target="lab")
    check_fit(Survey("runs", None), shape(16), 1, target="lab")
    with pytest.raises(CheckFailed, match="allows 1"):
        check_fit(Survey("runs", grows, quotas=[quota(pods="1")]), shape(1), 2, target="lab")


@pytest.mark.parametrize("odd", [{}, {"metadata": {}, "spec": None, "status": None}])
def test_an_odd_node_is_down(odd: dict[str, Any]) -> None:
    found = nodes_of(Survey("runs", [odd], [odd]))
    assert found is not None and found[0].state == "down"
    assert find_misfit([odd], shape(1), 1) is not None


def test_equal_nodes_are_kept_once_with_their_number() -> None:
    nodes = [node(f"n{number}", labels={"kubernetes.io/hostname": f"n{number}"}) for number in range(1000)]
    nodes.append(node("other", gpus=4))
    kept = trim_nodes(nodes)
    assert [count for _, count in kept] == [1000, 1]
    assert len(json.dumps(kept)) < 1000
    again = [one for one, count in kept for _ in range(count)]
    for wanted, count in ((shape(8), 1000), (shape(8), 1001), (shape(4), 2001), (shape(4), 2002)):
        assert find_misfit(again, wanted, count) == find_misfit(nodes, wanted, count)
