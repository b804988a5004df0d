"""Kubernetes passes the suite that is shipped for every backend, on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s.cluster import Kubernetes
from k8s.k8s_home import K8sHome

from gofer.ops.session import Session
from gofer.testing.backend_conformance import BackendConformance

pytestmark = [pytest.mark.root, pytest.mark.xdist_group("k8s-conformance")]


class TestKubernetes(BackendConformance):
    column = "kubernetes"
    target = "lab"
    gpus_per_node = 4
    timeout_s = 200.0
    home: K8sHome

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, k8s: Kubernetes, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        self.home = K8sHome(tmp_path, k8s)
        for name, value in self.home.environ.items():
            monkeypatch.setenv(name, value)
        yield
        self.home.close()

    def open(self) -> Session:
        return Session(self.home.folder, self.home.environ, emit=lambda _: None)
