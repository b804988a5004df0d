"""Nodes that kwok simulates beside the real ones."""

from __future__ import annotations

import pytest
from clusters.fixtures import ON_K8S
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s.cluster import Kubernetes
from clusters.k8s.simulated_nodes import TAINT, add_simulated_nodes
from k8s.pods import job, pods_of, status, submit, until_ended

pytestmark = ON_K8S


@pytest.mark.slow
def test_a_job_of_many_pods_runs_on_simulated_nodes_alone(k8s: Kubernetes) -> None:
    nodes = add_simulated_nodes(k8s, 50)
    tolerated = {"tolerations": [{"key": TAINT, "operator": "Exists"}], "nodeSelector": {"type": "kwok"}}
    submit(k8s, job("wide", "print()", count=100, gpus=4, **tolerated))
    k8s.until(lambda: "Complete" in str(status(k8s, "wide")), "the end of 100 simulated pods")
    assert {pod["spec"]["nodeName"] for pod in pods_of(k8s, "wide")} <= set(nodes)
    submit(k8s, job("real", "print('here')"))
    assert until_ended(k8s, "real") == "Complete"
    assert pods_of(k8s, "real")[0]["spec"]["nodeName"] in k8s.nodes
    assert len(add_simulated_nodes(k8s, 1)) == 51
