"""A cluster for one measurement, and a gofer, a kubectl and Python clients in front of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from bench import measure
from bench.errors import BenchError
from bench.measure import Sample
from bench.places import DRIVERS, REPOSITORY, gofer_argv
from bench.plan import Plan

if TYPE_CHECKING:
    from clusters.k8s.cluster import Kubernetes

TESTS = str(REPOSITORY / "tests")
TIMEOUT_S = 300
# No scheduler has this name, so pods wait and the cluster has nothing to do.
HELD = "nobody"
# How the clients call themselves in the log of the API server.
AGENTS = {"gofer": "gofer", "kubectl": "kubectl", "python": "OpenAPI-Generator"}
_CONFIG = """\
target: {target}
targets:
  lab: {{kind: kubernetes, kubeconfig: {kubeconfig}, image: "{image}", store: lab}}
  held: {{kind: kubernetes, kubeconfig: {kubeconfig}, image: "{image}", store: lab,
         pod: {{spec: {{schedulerName: {held}}}}}}}
stores:
  lab: {{url: az://{container}/me/gofer, account: {account}, endpoint: "{endpoint}", key: "${{env:LAB_KEY}}"}}
"""


@dataclass(frozen=True)
class BenchKubernetes:
    """`env` leads to the cluster."""

    plan: Plan
    k8s: Kubernetes
    env: Mapping[str, str]

    @classmethod
    def of(cls, plan: Plan, k8s: Kubernetes) -> BenchKubernetes:
        """On a cluster that runs."""
        path = os.pathsep.join([str(k8s.path), os.environ.get("PATH", os.defpath)])
        return cls(plan, k8s, {**plan.places.environment(), **k8s.exports, "PATH": path})

    def new_user(self, target: str) -> GoferUser:
        """A new user, whose runs go to `lab`, or to `held` where nothing starts."""
        from clusters.k8s.images import PYTHON
        from clusters.k8s.store import ACCOUNT, KEY, create_container, endpoint

        root = self.plan.places.fresh("user")
        for name in ("project", "home"):
            (root / name).mkdir()
        container = f"bench-{uuid4().hex[:12]}"
        create_container(self.k8s, container)
        text = _CONFIG.format(
            target=target,
            kubeconfig=self.k8s.site.kubeconfig,
            image=PYTHON,
            held=HELD,
            container=container,
            account=ACCOUNT,
            endpoint=endpoint(self.k8s),
        )
        (root / "project" / "gofer.yaml").write_text(text, encoding="utf-8")
        path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        kept = os.pathsep.join(one for one in path if one and Path(one).resolve() != Path(TESTS))
        found = {"PYTHONPATH": kept} if kept else {}
        env = {**self.env, **found, "GOFER_HOME": str(root / "home"), "HOME": str(root), "LAB_KEY": KEY}
        return GoferUser(self, root, env)

    def job(self, name: str, *command: str, is_held: bool = False) -> dict[str, Any]:
        """A Job as a person would write it."""
        from clusters.k8s.images import PYTHON

        container = {"name": "main", "image": PYTHON, "command": list(command)}
        pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
        if is_held:
            pod["schedulerName"] = HELD
        labels = {"team": "bench"}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels},
            "spec": {"template": {"metadata": {"labels": labels}, "spec": pod}},
        }

    def file(self, document: Mapping[str, Any]) -> str:
        """The path of a file with the document, for `kubectl create -f`."""
        path = self.plan.places.fresh("manifest") / "manifest.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return str(path)

    def kubectl(self, *words: str) -> Sample:
        argv = ["kubectl", *words]
        return measure.run(argv, env=self.env, cwd=self.plan.places.scratch, timeout_s=TIMEOUT_S)

    def python(self, peer: str, driver: str, *words: str) -> Sample:
        """A driver in the interpreter of that peer."""
        argv = [self.plan.peers.program(peer, "python"), str(DRIVERS / driver), *words]
        return measure.run(argv, env=self.env, cwd=self.plan.places.scratch, timeout_s=TIMEOUT_S)

    def counts(self, agent: str) -> Calls:
        """The requests of a kind of client since the cluster began."""
        found = self.k8s.requests(AGENTS[agent])
        return Calls(len(found), sum(one.is_write for one in found))

    def empty(self) -> None:
        """Take every job from the cluster, so that each finds it as it was."""
        self.kubectl("delete", "jobs", "--all", "--cascade=background", "--wait=false")


@dataclass(frozen=True)
class Calls:
    """Requests to the API server, and how many of them wrote."""

    requests: int
    writes: int

    def since(self, before: Calls) -> Calls:
        return Calls(self.requests - before.requests, self.writes - before.writes)

    def __str__(self) -> str:
        return f"{self.requests:,}, {self.writes:,} writes"


@dataclass(frozen=True)
class GoferUser:
    """One user's gofer, its state and its project below `root`."""

    cluster: BenchKubernetes
    root: Path
    env: Mapping[str, str]

    def gofer(self, *words: str) -> Sample:
        project = self.root / "project"
        return measure.run([*gofer_argv(), *words], env=self.env, cwd=project, timeout_s=TIMEOUT_S)

    def follow(self, *words: str) -> subprocess.Popen[bytes]:
        """A command whose output is read while it runs; the caller ends it."""
        argv = [*gofer_argv(), *words]
        pipe = subprocess.PIPE
        project = self.root / "project"
        return subprocess.Popen(argv, env=dict(self.env), cwd=project, stdout=pipe, stderr=subprocess.DEVNULL)

    def submit(self, *words: str) -> str:
        """The id of a new run without code."""
        return self.gofer("submit", "-Q", "--no-code", *words).output.strip()


@contextmanager
def start_cluster(plan: Plan) -> Iterator[BenchKubernetes]:
    """A cluster that ends with the block, or with this process. BenchError when it cannot be started."""
    if TESTS not in map(os.path.abspath, sys.path):
        raise BenchError("the cluster is that of the tests: `make bench-k8s`, or PYTHONPATH=tests")
    from clusters.errors import ClusterError
    from clusters.fixtures import running_k8s

    try:
        with running_k8s() as k8s:
            yield BenchKubernetes.of(plan, k8s)
    except ClusterError as error:
        raise BenchError(f"no cluster: {str(error).splitlines()[0]}") from error
