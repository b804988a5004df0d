"""Faults of the Kubernetes cluster: what it makes of them is what a real one does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from clusters.errors import ClusterError
from clusters.fixtures import ON_K8S
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s import faults
from clusters.k8s.cluster import Kubernetes
from clusters.line import Fault
from k8s.pods import job, pods_of, status, submit, until_running

from gofer.errors import Unreachable
from gofer.transport.kubernetes import kubeconfig
from gofer.transport.kubernetes.client import KubeClient

pytestmark = ON_K8S

# Its lines go to a volume, since containerd, which writes the logs, can be frozen too.
FOREVER = "import time\nwhile True: print(file=open('/scratch/lines', 'a')); time.sleep(0.1)"


def begin(k8s: Kubernetes, name: str) -> dict[str, Any]:
    """A job of one pod that runs for long; the pod."""
    document = job(name, FOREVER, volumes=[{"name": "scratch", "emptyDir": {}}])
    (container,) = document["spec"]["template"]["spec"]["containers"]
    container["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
    submit(k8s, document)
    until_running(k8s, name)
    return pods_of(k8s, name)[0]


def replacement(k8s: Kubernetes, name: str, pod: dict[str, Any]) -> dict[str, Any]:
    """Wait for the pod that the job gets in place of `pod`."""

    def others() -> list[dict[str, Any]]:
        found = [one for one in pods_of(k8s, name) if one["metadata"]["uid"] != pod["metadata"]["uid"]]
        return [one for one in found if one["status"]["phase"] == "Running"]

    k8s.until(others, f"another pod of {name}")
    return others()[0]


def lines_of(k8s: Kubernetes, pod: dict[str, Any]) -> int:
    """How many lines the pod has written, read on its node's disk."""
    volumes = (
        k8s.node(pod["spec"]["nodeName"]).folder / "kubelet" / "pods" / pod["metadata"]["uid"] / "volumes"
    )
    return len((volumes / "kubernetes.io~empty-dir" / "scratch" / "lines").read_text())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "lives"), [(faults.crash_node, False), (faults.cut_node, True), (faults.freeze_node, True)]
)
def test_the_pod_of_a_silent_node_is_replaced_and_may_live_on(
    k8s: Kubernetes, fault: Callable[[Kubernetes, str], None], lives: bool
) -> None:
    pod = begin(k8s, "silent")
    node = pod["spec"]["nodeName"]
    fault(k8s, node)
    other = replacement(k8s, "silent", pod)
    assert other["spec"]["nodeName"] != node
    before = lines_of(k8s, pod)
    if lives:
        k8s.until(lambda: lines_of(k8s, pod) > before, "a line of the pod that was given up")
    faults.heal(k8s)
    k8s.until(lambda: len(pods_of(k8s, "silent")) == 1 or ended(k8s, pod), "the end of the first pod")


def ended(k8s: Kubernetes, pod: dict[str, Any]) -> bool:
    found = {one["metadata"]["uid"]: one["status"]["phase"] for one in pods_of(k8s, "silent")}
    return found.get(pod["metadata"]["uid"]) in (None, "Failed")


def test_a_node_that_starts_again_at_once_is_not_missed(k8s: Kubernetes) -> None:
    faults.crash_node(k8s, "node1")
    assert "node1" not in k8s.ready_nodes()
    faults.heal(k8s)
    assert set(k8s.ready_nodes().values()) == {4}


def test_stopped_pods_go_on_where_they_were(k8s: Kubernetes) -> None:
    pod = begin(k8s, "stopped")
    node = pod["spec"]["nodeName"]
    faults.stop_pods(k8s, node)
    before = lines_of(k8s, pod)
    until_running(k8s, "stopped")  # the cluster sees no difference
    assert lines_of(k8s, pod) == before
    faults.heal(k8s)
    k8s.until(lambda: lines_of(k8s, pod) > before, "another line")


def test_a_drained_node_gives_its_pods_away(k8s: Kubernetes) -> None:
    pod = begin(k8s, "drained")
    node = pod["spec"]["nodeName"]
    faults.drain_node(k8s, node)
    assert replacement(k8s, "drained", pod)["spec"]["nodeName"] != node
    assert "SchedulingDisabled" in k8s.kubectl("get", "node", node)
    faults.heal(k8s)
    assert "SchedulingDisabled" not in k8s.kubectl("get", "nodes")


def test_an_evicted_pod_is_replaced(k8s: Kubernetes) -> None:
    pod = begin(k8s, "evicted")
    faults.evict_pod(k8s, pod["metadata"]["name"])
    replacement(k8s, "evicted", pod)


def test_a_node_short_of_memory_evicts_its_pods(k8s: Kubernetes) -> None:
    pod = begin(k8s, "large")
    faults.fill_node(k8s, pod["spec"]["nodeName"])

    def reasons() -> list[str]:
        return [one["status"].get("reason", "") for one in pods_of(k8s, "large")]

    k8s.until(lambda: "Evicted" in reasons(), "an eviction")
    faults.heal(k8s)


def test_a_node_that_is_forgotten_comes_back(k8s: Kubernetes) -> None:
    faults.forget_node(k8s, "node3")
    assert "node3" not in k8s.kubectl("get", "nodes")
    faults.heal(k8s)
    assert k8s.ready_nodes()["node3"] == 4


@pytest.mark.parametrize("part", ["kube-apiserver", "etcd"])
def test_a_part_that_hangs_goes_on_when_it_is_healed(k8s: Kubernetes, part: str) -> None:
    faults.freeze_part(k8s, part)
    with pytest.raises(ClusterError):
        k8s.kubectl("get", "jobs", "--request-timeout=2s")
    faults.heal(k8s)
    assert status_is_known(k8s)


def status_is_known(k8s: Kubernetes) -> bool:
    submit(k8s, job("after", "print()"))
    return isinstance(status(k8s, "after"), dict)


@pytest.mark.parametrize(
    ("word", "message"), [("crash", "no node 'x': .*node1"), ("kill", "no part 'x': .*etcd")]
)
def test_an_unknown_name_is_refused_with_those_that_are_known(
    k8s: Kubernetes, word: str, message: str
) -> None:
    with pytest.raises(ClusterError, match=message):
        faults.FAULTS[word].cause(k8s, "x")


def test_a_line_to_the_api_server_can_be_disturbed(k8s: Kubernetes) -> None:
    line, config = k8s.open_line("bad")
    one = KubeClient(kubeconfig.load(file=str(config)))
    assert one.get("/version")["gitVersion"].startswith("v1.")
    line.cut()
    line.set(Fault("refuse"), times=1)
    assert one.get("/version")["major"] == "1"  # the client tries again
    line.set(Fault("refuse"))
    line.cut()
    with pytest.raises(Unreachable, match="cannot be reached"):
        one.get("/version")
