"""What gofer says of a real cluster: nodes, why a Job waits, jobs of others, doctor, a new target."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusters.fixtures import ON_K8S
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s import faults
from clusters.k8s.cluster import Kubernetes
from clusters.k8s.site import issue, write_kubeconfig
from k8s import pods

from gofer.backends.base import JobFilter, Waiting
from gofer.backends.kind import CheckContext
from gofer.backends.kubernetes.capacity import Survey, describe, find_misfit, nodes_of, shape_of
from gofer.backends.kubernetes.checks import kubernetes_checks
from gofer.backends.kubernetes.jobs import KubeJobs
from gofer.backends.kubernetes.set_up import set_up
from gofer.backends.kubernetes.state.wait_query import read_wait_facts
from gofer.backends.kubernetes.state.wait_reasons import explain
from gofer.backends.target_setup import Fact, Question, SetTarget
from gofer.core.states import State
from gofer.errors import CheckFailed
from gofer.model.checks import Check, Status
from gofer.ops.accounts.azure_profiles import Profiles
from gofer.transport.kubernetes import kubeconfig
from gofer.transport.kubernetes.client import KubeClient

pytestmark = ON_K8S

_SLEEP = "import time; time.sleep(600)"


def client(k8s: Kubernetes) -> KubeClient:
    return KubeClient(kubeconfig.load(file=str(k8s.site.kubeconfig)))


def reason(k8s: Kubernetes, name: str) -> Waiting | None:
    """Why the Job waits, now."""
    facts = read_wait_facts(client(k8s), "default", name, target="lab")
    assert facts is not None
    return explain(facts, now=max(pod.created_at for pod in facts.job.pods) + 5.0 if facts.job.pods else 0.0)


def until_said(k8s: Kubernetes, name: str, words: str) -> Waiting:
    """Until the reason has these words."""
    said: list[Waiting] = []

    def shows() -> bool:
        found = reason(k8s, name)
        said.extend([found] if found else [])
        return found is not None and words in found.why

    k8s.until(shows, f"the words `{words}`")
    return said[-1]


def test_the_nodes_and_what_a_job_takes_of_them(k8s: Kubernetes) -> None:
    pods.submit(k8s, pods.job("three", _SLEEP, gpus=3))
    pods.until_running(k8s, "three")
    survey = Survey.read(client(k8s), "default")
    found = nodes_of(survey)
    assert found is not None
    assert [(node.name, node.gpus) for node in found] == [("node1", 4), ("node2", 4), ("node3", 4)]
    assert sorted(node.gpus_free for node in found) == [1, 4, 4]
    assert sorted(node.state for node in found) == ["free", "free", "mixed"]
    assert {node.gpu_type for node in found} == {"NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"}
    assert all(node.memory_mib > 1000 for node in found)
    assert describe(survey)["gpus"] == {"free": 9, "total": 12}


def test_a_node_that_is_closed_or_dead_has_nothing_free(k8s: Kubernetes) -> None:
    k8s.kubectl("cordon", "node1")
    faults.crash_node(k8s, "node2")
    k8s.until(
        lambda: (
            [one.state for one in nodes_of(Survey.read(client(k8s), "default")) or ()][:2] == ["down"] * 2
        ),
        "two nodes that are down",
    )


def test_what_can_never_fit_agrees_with_the_scheduler(k8s: Kubernetes) -> None:
    nodes = Survey.read(client(k8s), "default").nodes
    assert nodes is not None
    for name, gpus, can_fit in (("fits", 4, True), ("large", 5, False)):
        made = pods.job(name, _SLEEP, gpus=gpus)
        shape = shape_of(made["spec"]["template"]["spec"])
        assert (find_misfit(nodes, shape, 1) is None) == can_fit
        pods.submit(k8s, made)
    pods.until_running(k8s, "fits")
    words = "no node is large enough, even when it is empty: it asks for more GPUs than a node has"
    found = until_said(k8s, "large", words)
    assert found.next == ("gofer list nodes -t lab",)


def test_why_a_job_waits_for_gpus_that_others_have(k8s: Kubernetes) -> None:
    pods.submit(k8s, pods.job("first", _SLEEP, count=3, gpus=4))
    pods.until_running(k8s, "first", 3)
    pods.submit(k8s, pods.job("second", _SLEEP, gpus=1))
    until_said(k8s, "second", "each of the 3 nodes has too few free GPUs (0/3 nodes are available")


def test_why_a_job_waits_for_a_taint(k8s: Kubernetes) -> None:
    k8s.kubectl("taint", "nodes", "--all", "sku=gpu:NoSchedule")
    try:
        pods.submit(k8s, pods.job("kept-away", _SLEEP))
        words = "3 nodes have the taint `sku=gpu`, which the run does not tolerate"
        found = until_said(k8s, "kept-away", words)
        assert "`tolerations:` of the target" in found.why
    finally:
        k8s.kubectl("taint", "nodes", "--all", "sku-")


def test_why_a_namespace_makes_no_pod(k8s: Kubernetes) -> None:
    k8s.kubectl("create", "quota", "small", "--hard=pods=0")
    try:
        pods.submit(k8s, pods.job("refused", _SLEEP))
        until_said(
            k8s,
            "refused",
            "it can never start: the quota `small` of the namespace is too small (pods: 0 of 0",
        )
    finally:
        k8s.kubectl("delete", "quota", "small")


def test_a_job_that_the_cluster_does_not_have(k8s: Kubernetes) -> None:
    assert read_wait_facts(client(k8s), "default", "nobody", target="lab") is None


def test_the_jobs_of_everybody(k8s: Kubernetes) -> None:
    service = KubeJobs(client(k8s), "default")
    mine = pods.job("mine", "print(1)", gpus=2)
    mine["metadata"]["labels"] = {
        "app.kubernetes.io/managed-by": "gofer",
        "gofer.run/user": "ada",
        "team": "vision",
    }
    pods.submit(k8s, mine)
    assert pods.until_ended(k8s, "mine") == "Complete"
    pods.submit(k8s, pods.job("theirs", _SLEEP))
    pods.until_running(k8s, "theirs")
    found = service.jobs(JobFilter())
    assert [(one.name, one.state, one.is_ours, one.gpus) for one in found] == [
        ("theirs", State.RUNNING, False, 0),
        ("mine", State.SUCCEEDED, True, 2),
    ]
    assert [one.name for one in service.jobs(JobFilter(user="ada"))] == ["mine"]
    assert [one.name for one in service.jobs(JobFilter(tag="team=vision"))] == ["mine"]
    assert [one.name for one in service.jobs(JobFilter(states=frozenset({State.RUNNING})))] == ["theirs"]
    assert len(service.jobs(JobFilter(most=1))) == 1
    one = service.job("theirs")
    assert one is not None and one.command.startswith("python3 -u -c")
    assert service.job("nobody") is None and service.job("rayjob/nobody") is None


_RAY = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "rayjobs.ray.io"},
    "spec": {
        "group": "ray.io",
        "names": {"kind": "RayJob", "plural": "rayjobs"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


def test_the_jobs_of_an_operator_are_listed_where_the_cluster_has_it(k8s: Kubernetes) -> None:
    k8s.kubectl("apply", "-f", "-", text=yaml.safe_dump(_RAY))
    try:
        job = {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": "tune"},
            "spec": {"entrypoint": "a b"},
        }
        k8s.until(lambda: "rayjobs" in k8s.kubectl("api-resources", "--cached=false"), "the new kind")
        k8s.kubectl("create", "-f", "-", text=yaml.safe_dump(job))
        service = KubeJobs(client(k8s), "default")
        assert [(one.name, one.command) for one in service.jobs(JobFilter())] == [("rayjob/tune", "a b")]
        one = service.job("rayjob/tune")
        assert one is not None and one.state == State.QUEUED
    finally:
        k8s.kubectl("delete", "crd", "rayjobs.ray.io")


def checks(environ: Mapping[str, str], home: Path) -> dict[str, Check]:
    """What `gofer doctor kubernetes` finds about the current context."""
    context = CheckContext({**os.environ, **environ}, str(home), Profiles.of(environ), 60.0)
    return {check.name: check for check in kubernetes_checks([], context)}


def test_doctor_finds_nothing_wrong_for_an_admin(k8s: Kubernetes, tmp_path: Path) -> None:
    found = checks({"KUBECONFIG": str(k8s.site.kubeconfig)}, tmp_path)
    assert {check.status for check in found.values()} == {Status.OK}
    assert found["credential"].detail == "signed in as `admin`"
    assert "3 nodes with up to 4 GPUs" in found["gpus"].detail


@pytest.fixture
def alice(k8s: Kubernetes, tmp_path: Path) -> Iterator[str]:
    """The kubeconfig of a user without rights."""
    yield str(write_kubeconfig(k8s.site, tmp_path / "alice.config", issue(k8s.site, "alice")))
    k8s.kubectl("delete", "role,rolebinding", "--all")
    k8s.kubectl("delete", "clusterrole,clusterrolebinding", "gofer", "gofer-alice", "--ignore-not-found")


def test_the_role_that_doctor_prints_gives_what_is_missing(
    k8s: Kubernetes, alice: str, tmp_path: Path
) -> None:
    found = checks({"KUBECONFIG": alice}, tmp_path)
    assert found["rights"].status == Status.FAIL
    assert found["cluster rights"].status == Status.WARN
    for name in ("rights", "cluster rights"):
        k8s.kubectl("apply", "-f", "-", text=(found[name].hint or "").partition("\n")[2])
    k8s.until(
        lambda: {one.status for one in checks({"KUBECONFIG": alice}, tmp_path).values()} == {Status.OK},
        "the rights of alice",
    )


def test_doctor_says_that_a_namespace_demands_more(k8s: Kubernetes, tmp_path: Path) -> None:
    k8s.kubectl("create", "namespace", "strict")
    k8s.kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
    try:
        file = tmp_path / "config"
        config = yaml.safe_load(k8s.site.kubeconfig.read_text())
        config["contexts"][0]["context"]["namespace"] = "strict"
        file.write_text(yaml.safe_dump(config))
        found = checks({"KUBECONFIG": str(file)}, tmp_path)
        assert found["namespace"].detail.startswith("`strict` demands the Pod Security Standard `restricted`")
        config["contexts"][0]["context"]["namespace"] = "strct"
        file.write_text(yaml.safe_dump(config))
        found = checks({"KUBECONFIG": str(file)}, tmp_path)
        assert found["namespace"].status == Status.FAIL and "strict" in (found["namespace"].hint or "")
    finally:
        k8s.kubectl("delete", "namespace", "strict")


def test_doctor_names_a_credential_program_that_is_missing(k8s: Kubernetes, tmp_path: Path) -> None:
    config = yaml.safe_load(k8s.site.kubeconfig.read_text())
    config["users"][0]["user"] = {
        "exec": {"command": "no-such-login", "installHint": "install no-such-login"}
    }
    file = tmp_path / "odd name" / "config"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(config))
    found = checks({"KUBECONFIG": str(file)}, tmp_path)
    assert [one.status for one in found.values()] == [Status.OK, Status.FAIL]
    assert found["credential program"].hint == "install no-such-login"


def test_doctor_without_a_kubeconfig_and_with_a_server_that_is_away(k8s: Kubernetes, tmp_path: Path) -> None:
    found = checks({"KUBECONFIG": str(tmp_path / "none")}, tmp_path)
    assert [one.status for one in found.values()] == [Status.FAIL]
    k8s.kill_part("kube-apiserver")
    found = checks({"KUBECONFIG": str(k8s.site.kubeconfig)}, tmp_path)
    assert found["server"].status == Status.FAIL and "cannot be reached" in found["server"].detail


def answers(environ: Mapping[str, str], home: Path, given: Mapping[str, str]) -> tuple[list[Fact], SetTarget]:
    """The facts and the target of `gofer target add`, with these answers and else the defaults."""
    context = CheckContext({**os.environ, **environ}, str(home), Profiles.of(environ), 60.0)
    facts: list[Fact] = []
    steps, answer = set_up("lab", context), None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            return facts, end.value
        answer = None
        if isinstance(step, Fact):
            facts.append(step)
        elif isinstance(step, Question):
            answer = given.get(step.key, step.default)
            assert answer is not None, step


def test_a_target_is_set_up_from_what_the_cluster_has(k8s: Kubernetes, tmp_path: Path) -> None:
    environ: dict[str, Any] = {"KUBECONFIG": str(k8s.site.kubeconfig)}
    facts, target = answers(environ, tmp_path, {"store": "blob", "image": "localhost/python:3"})
    assert target.options == {
        "kind": "kubernetes",
        "context": "lab",
        "namespace": "default",
        "gpus_per_node": 4,
        "gpu_type": "NVIDIA-A100-SXM4-80GB",
        "image": "localhost/python:3",
        "store": "blob",
    }
    assert Fact("NVIDIA-H100-80GB-HBM3", "1 node of up to 4 GPUs, 4 free now") in facts
    with pytest.raises(CheckFailed, match="has no namespace `defalt`") as caught:
        answers(environ, tmp_path, {"namespace": "defalt", "store": "blob"})
    assert "default" in str(caught.value.hint)
