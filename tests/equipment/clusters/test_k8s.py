"""The Kubernetes cluster as equipment: it starts beside another, heals, and leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from clusters.cells import call, find
from clusters.errors import ClusterError
from clusters.fixtures import ON_K8S
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s.cluster import Kubernetes, attach, down, up
from clusters.k8s.control_plane import PARTS
from clusters.k8s.faults import heal

pytestmark = ON_K8S


def test_two_clusters_know_nothing_of_each_other(k8s: Kubernetes, tmp_path: Path) -> None:
    folder = tmp_path / "second of two"
    second = up(folder, tied=True)
    try:
        second.kubectl("create", "namespace", "elsewhere")
        assert "elsewhere" not in k8s.kubectl("get", "namespaces")
        assert attach(folder).site == second.site
    finally:
        assert down(folder)
    assert not folder.exists() and not find(folder)
    # The kernel removes a network some time after its last process.
    k8s.until(
        lambda: f"{second.site.network}." not in call("ip", "-4", "-o", "addr"), "the end of the network"
    )
    assert not down(folder)


def test_a_folder_in_use_is_refused(k8s: Kubernetes, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="make k8s-down"):
        up(k8s.folder)
    with pytest.raises(ClusterError, match=r"no Kubernetes cluster runs in .*make k8s-up"):
        attach(tmp_path)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_crashed_is_started_again_with_its_state(k8s: Kubernetes, part: str) -> None:
    k8s.kubectl("create", "configmap", f"before-{part}")
    k8s.kill_part(part)
    if part in ("etcd", "kube-apiserver"):
        assert not k8s.answers()
    heal(k8s)
    assert json.loads(k8s.kubectl("get", "configmap", f"before-{part}", "-o", "json"))["metadata"]["uid"]
