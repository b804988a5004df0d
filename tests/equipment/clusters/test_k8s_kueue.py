"""Kueue on the Kubernetes cluster: a job waits until the quota of its queue is free."""

from __future__ import annotations

import json

import pytest
from clusters.fixtures import ON_K8S
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s.cluster import Kubernetes
from clusters.k8s.kueue import start_kueue
from k8s.pods import job, submit, until_ended, until_running

pytestmark = ON_K8S

VERSION = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"


def queue(gpus: int) -> list[dict[str, object]]:
    """A queue `research` whose jobs together may use so many GPUs."""
    flavor = {"name": "any", "resources": [{"name": GPU, "nominalQuota": str(gpus)}]}
    groups = [{"coveredResources": [GPU], "flavors": [flavor]}]
    return [
        {"apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": {"name": "any"}},
        {
            "apiVersion": VERSION,
            "kind": "ClusterQueue",
            "metadata": {"name": "all"},
            "spec": {"namespaceSelector": {}, "resourceGroups": groups},
        },
        {
            "apiVersion": VERSION,
            "kind": "LocalQueue",
            "metadata": {"name": "research", "namespace": "default"},
            "spec": {"clusterQueue": "all"},
        },
    ]


def is_suspended(k8s: Kubernetes, name: str) -> bool:
    return k8s.kubectl("get", "job", name, "-o", "jsonpath={.spec.suspend}") == "true"


@pytest.mark.slow
def test_a_job_waits_for_the_quota_of_its_queue(k8s: Kubernetes) -> None:
    start_kueue(k8s)
    documents = {"apiVersion": "v1", "kind": "List", "items": queue(4)}
    k8s.kubectl("create", "-f", "-", text=json.dumps(documents))
    for name in ("first", "second"):
        document = job(name, "import time; time.sleep(5)", gpus=3)
        document["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
        submit(k8s, document)
    until_running(k8s, "first")
    assert is_suspended(k8s, "second") and not is_suspended(k8s, "first")
    assert until_ended(k8s, "first") == "Complete"
    assert until_ended(k8s, "second") == "Complete"
