"""What `gofer doctor kubernetes` makes of the cluster's answers."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gofer.backends.kubernetes import rights
from gofer.backends.kubernetes.capacity import Survey
from gofer.backends.kubernetes.checks import (
    check_gpus,
    check_queue,
    check_quota,
    check_rights,
    check_security,
    check_version,
)
from gofer.model.checks import Status
from gofer.transport.kubernetes.client import KubeApiError


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("v1.29.0", Status.OK),
        ("v1.34.10", Status.OK),
        ("v1.31.4-gke.1", Status.OK),
        ("v2.0.0", Status.OK),
        ("v1.28.15", Status.FAIL),
        ("v1.9.0", Status.FAIL),
        ("main", Status.WARN),
        ("", Status.WARN),
    ],
)
def test_the_version_of_the_server(version: str, status: Status) -> None:
    assert check_version({"gitVersion": version}).status == status


@pytest.mark.parametrize(
    ("level", "security", "status"),
    [
        ("", "image", Status.OK),
        ("privileged", "image", Status.OK),
        ("baseline", "image", Status.OK),
        ("restricted", "restricted", Status.OK),
        ("restricted", "image", Status.FAIL),
    ],
)
def test_what_the_namespace_demands(level: str, security: str, status: Status) -> None:
    found = check_security("runs", level, security)
    assert found.status == status
    assert (found.hint is None) == found.ok


ALL = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


def test_a_rule_for_everything_gives_every_right() -> None:
    assert rights.find_missing(ALL, rights.RIGHTS) == []


def test_the_verbs_that_are_missing() -> None:
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["*/exec"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"], "resourceNames": ["one"]},
    ]
    missing = {right.resource: right.verbs for right in rights.find_missing(rules, rights.RIGHTS)}
    assert missing["jobs"] == ("create", "watch", "patch", "delete")
    assert missing["secrets"] == ("create", "get", "list", "patch", "delete")
    assert "pods/exec" not in missing


def rules_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document["rules"]
    return found


@pytest.mark.parametrize(
    "user", ["ada", "ada@example.com", 'o"dd\\', "system:serviceaccount:ci:bot", "https://x#ada"]
)
def test_the_role_that_is_printed_gives_all_rights(user: str) -> None:
    found = check_rights(rights.RIGHTS[:1], rights.RIGHTS, namespace="runs", user=user)
    assert found.status == Status.FAIL and "create, get, list" in found.detail
    role, binding = yaml.safe_load_all((found.hint or "").partition("\n")[2])
    assert rights.find_missing(rules_of(role), rights.RIGHTS) == []
    assert role["metadata"] == {"name": "gofer", "namespace": "runs"}
    subject = binding["subjects"][0]
    if user.startswith("system:"):
        assert (subject["kind"], subject["namespace"], subject["name"]) == ("ServiceAccount", "ci", "bot")
    else:
        assert (subject["kind"], subject["name"]) == ("User", user)


def test_two_people_have_a_binding_each() -> None:
    made = [
        list(yaml.safe_load_all(rights.cluster_role_yaml(rights.CLUSTER_RIGHTS, user=who))) for who in "ab"
    ]
    assert made[0][0] == made[1][0]
    assert made[0][1]["metadata"] != made[1][1]["metadata"]


def test_a_right_that_is_only_useful_is_a_warning() -> None:
    missing = [right for right in rights.RIGHTS if not right.is_needed]
    assert check_rights(missing, rights.RIGHTS, namespace="runs", user="").status == Status.WARN
    assert check_rights([], rights.RIGHTS, namespace="runs", user="").status == Status.OK


def test_an_answer_about_a_missing_right_leads_to_the_role() -> None:
    words = 'jobs.batch is forbidden: User "ada" cannot list resource "jobs" in API group "batch"'
    assert "gofer doctor kubernetes" in (KubeApiError(403, "Forbidden", words).hint or "")
    assert KubeApiError(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: team').hint is None
    assert KubeApiError(404, "NotFound", 'jobs.batch "x" not found').hint is None


def node(gpus: str = "", **labels: str) -> dict[str, Any]:
    allocatable = {"cpu": "2", **({"nvidia.com/gpu": gpus} if gpus else {})}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": "n", "labels": {key.replace("_", "."): value for key, value in labels.items()}},
        "status": {"allocatable": allocatable, "conditions": ready},
    }


@pytest.mark.parametrize(
    ("nodes", "gpus_per_node", "words", "status"),
    [
        ([node("4", accelerator="a100")], 4, "1 node with up to 4 GPUs: a100", Status.OK),
        ([node("4", accelerator="a100")], 8, "no node has more than 4", Status.WARN),
        ([node()], 8, "none of the 1 node has GPUs", Status.WARN),
        ([node()], 0, "none of the 1 node has GPUs", Status.OK),
    ],
)
def test_the_gpus(nodes: list[dict[str, Any]], gpus_per_node: int, words: str, status: Status) -> None:
    (found,) = check_gpus(Survey("runs", nodes), gpus_per_node)
    assert words in found.detail and found.status == status


def test_nodes_that_take_no_pods_and_gpus_without_a_type_are_told() -> None:
    bad = node("4")
    bad["status"]["conditions"] = []
    assert [one.name for one in check_gpus(Survey("runs", [bad]), 4)] == ["nodes", "gpus", "gpu types"]
    assert list(check_gpus(Survey("runs", None), 4)) == []


def test_a_quota_that_is_nearly_used_up() -> None:
    def quota(used: str) -> Survey:
        status = {"hard": {"requests.nvidia.com/gpu": "8"}, "used": {"requests.nvidia.com/gpu": used}}
        return Survey("runs", None, quotas=[{"metadata": {"name": "team"}, "status": status}])

    assert check_quota(quota("8"), "runs").detail == "nearly used up: GPUs 8 of 8"
    assert check_quota(quota("2"), "runs").detail == "1 limit, none nearly used up"
    assert check_quota(Survey("runs", None), "runs").detail == "none"
    assert "may not list" in check_quota(Survey("runs", None, sees_quotas=False), "runs").detail


def test_the_queue_of_the_target() -> None:
    conditions = [{"type": "Active", "status": "False", "message": "stopped"}]
    queue = {"metadata": {"name": "research"}, "status": {"pendingWorkloads": 3, "conditions": []}}
    assert check_queue([queue], "research", "runs").detail == "`research`: 3 wait, 0 are admitted"
    assert "research" in (check_queue([queue], "reserch", "runs").hint or "")
    queue["status"] = {"conditions": conditions}
    assert check_queue([queue], "research", "runs").detail == "`research` admits nothing: stopped"
