"""The nodes of the Kubernetes cluster: pods run, reach each other and the API, and get GPUs."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from clusters.errors import ClusterError
from clusters.fixtures import ON_K8S
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s.cluster import Kubernetes
from clusters.k8s.node_files import KERNEL_SETTINGS
from k8s.pods import job, logs_of, pods_of, submit, until_ended, until_running

pytestmark = ON_K8S

# Pod 0 listens, others find it by its address, which they get from the API server as a service account.
MEETING = """
import json, os, socket, ssl, time, urllib.request

if os.environ["JOB_COMPLETION_INDEX"] == "0":
    server = socket.create_server(("", 4242))
    for _ in range(2):
        peer, _ = server.accept()
        print("met", peer.recv(100).decode(), flush=True)
    raise SystemExit
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
trusted = ssl.create_default_context(cafile=account + "ca.crt")
headers = {"Authorization": "Bearer " + open(account + "token").read()}
where = "https://kubernetes_host/api/v1/namespaces/default/pods?labelSelector=job-name%3Dmeeting"
where = where.replace("kubernetes_host", os.environ["KUBERNETES_SERVICE_HOST"])
for _ in range(600):
    with urllib.request.urlopen(urllib.request.Request(where, headers=headers), context=trusted) as answer:
        pods = json.load(answer)["items"]
    first = [pod["status"].get("podIP") for pod in pods if pod["metadata"]["name"].startswith("meeting-0-")]
    try:
        socket.create_connection((first[0], 4242), timeout=5).sendall(os.environ["NODE"].encode())
        break
    except (OSError, IndexError, AttributeError):
        time.sleep(0.1)
"""


def test_pods_on_three_nodes_reach_the_api_and_each_other(k8s: Kubernetes) -> None:
    k8s.kubectl("create", "role", "reader", "--verb=list", "--resource=pods")
    k8s.kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:default")
    document = job("meeting", MEETING, count=3, gpus=3)  # so each pod needs a node of its own
    container = document["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    submit(k8s, document)
    assert until_ended(k8s, "meeting") == "Complete"
    nodes = {pod["metadata"]["name"][:9]: pod["spec"]["nodeName"] for pod in pods_of(k8s, "meeting")}
    assert logs_of(k8s, "meeting") == sorted(f"met {nodes[name]}" for name in ("meeting-1", "meeting-2"))


def test_a_pod_reaches_a_server_of_this_machine(k8s: Kubernetes) -> None:
    with socket.create_server((k8s.site.caller_address, 0)) as server:
        server.settimeout(60)
        host, port = server.getsockname()
        submit(
            k8s, job("caller", f"import socket; socket.create_connection({(host, port)}).sendall(b'hello')")
        )
        peer, (address, _) = server.accept()
        with peer:
            assert peer.recv(100) == b"hello"
    assert until_ended(k8s, "caller") == "Complete"
    assert address == pods_of(k8s, "caller")[0]["status"]["podIP"]


def test_a_pod_gets_the_gpus_it_asks_for(k8s: Kubernetes) -> None:
    look = (
        "import os; given = os.environ['NVIDIA_VISIBLE_DEVICES'].split(',');"
        "print(len(given), all(os.path.exists('/dev/nvidia' + one) for one in given))"
    )
    submit(k8s, job("two", look, gpus=2))
    assert until_ended(k8s, "two") == "Complete"
    assert logs_of(k8s, "two") == ["2 True"]
    submit(k8s, job("sixteen", look, gpus=16))
    k8s.until(lambda: "Insufficient nvidia.com/gpu" in why_pending(k8s, "sixteen"), "the scheduler's reason")


def why_pending(k8s: Kubernetes, name: str) -> str:
    pods = pods_of(k8s, name)
    conditions = [one for pod in pods for one in pod["status"].get("conditions", ())]
    return " ".join(one.get("message", "") for one in conditions)


def test_a_gpu_that_broke_is_taken_from_the_node(k8s: Kubernetes) -> None:
    k8s.break_gpus("node2", 0, 3)
    k8s.until(lambda: k8s.ready_nodes()["node2"] == 2, "two GPUs on node2")
    k8s.break_gpus("node2")
    k8s.until_ready("node2")


def test_a_restricted_namespace_takes_restricted_pods_alone(k8s: Kubernetes) -> None:
    k8s.kubectl("create", "namespace", "strict")
    k8s.kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
    document = job("allowed", "import os; print(os.getuid())")
    k8s.kubectl("config", "set-context", "lab", "--namespace=strict")
    try:
        submit(k8s, document)
        assert until_ended(k8s, "allowed") == "Complete"
        assert logs_of(k8s, "allowed") == ["1000"]
        with pytest.raises(ClusterError, match="violates PodSecurity"):
            k8s.kubectl("run", "forbidden", "--image=localhost/python:3", "--restart=Never")
    finally:
        k8s.kubectl("config", "set-context", "lab", "--namespace=default")


def test_an_image_that_is_not_there_is_not_pulled(k8s: Kubernetes) -> None:
    document = job("missing", "print()")
    document["spec"]["template"]["spec"]["containers"][0]["image"] = "localhost/no-such-image:1"
    submit(k8s, document)
    reasons = ("ErrImagePull", "ImagePullBackOff")
    k8s.until(lambda: waits_for(k8s, "missing") in reasons, "a failed pull")


def waits_for(k8s: Kubernetes, name: str) -> str:
    for pod in pods_of(k8s, name):
        for container in pod["status"].get("containerStatuses", ()):
            return str(container["state"].get("waiting", {}).get("reason", ""))
    return ""


def test_more_nodes_join(k8s: Kubernetes) -> None:
    made = k8s.add_nodes(1)
    assert made == ["node4"]
    k8s.until_ready(*made)
    submit(k8s, job("there", "import socket; print('there')", nodeName="node4"))
    assert until_ended(k8s, "there") == "Complete"
    k8s.remove_node("node4")
    assert "node4" not in k8s.ready_nodes() and k8s.nodes == ["node1", "node2", "node3"]


def test_the_settings_of_the_kernel_stay_as_they_were(k8s: Kubernetes) -> None:
    before = settings()
    k8s.kill_daemon("node1", "kubelet")
    k8s.start_daemon("node1", "kubelet")
    k8s.until_ready("node1")
    submit(k8s, job("one", "import time; time.sleep(1000)"))
    until_running(k8s, "one")
    assert settings() == before


def settings() -> dict[str, str]:
    return {name: Path("/proc/sys", name).read_text() for name in KERNEL_SETTINGS}
