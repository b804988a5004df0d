"""`gofer why` of runs in trouble on a real cluster, and what a target shows: typed as a person types it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_K8S
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s import faults
from clusters.k8s.cluster import Kubernetes
from home import until
from k8s import pods
from k8s.k8s_home import K8sHome

pytestmark = ON_K8S

_SLEEP = "import time; time.sleep(600)"
_PULLED = "{kind: kubernetes, kubeconfig: %s, image: registry.invalid/team/train:2, store: lab}"


@pytest.fixture
def home(tmp_path: Path, k8s: Kubernetes) -> Iterator[K8sHome]:
    made = K8sHome(tmp_path, k8s, more=f"  pulled: {_PULLED % k8s.site.kubeconfig}")
    yield made
    made.close()


def until_why(home: K8sHome, words: str) -> str:
    """What `gofer why last` prints, once it has these words."""

    def said() -> str:
        text = home.gofer("why", "last").out
        return text if words in text else ""

    return until(said, f"`gofer why` with `{words}`", timeout_s=150.0)


def pod_of(home: K8sHome, run: str) -> str:
    """The pod of a run that runs."""
    until(lambda: home.view(run)["state"] == "running", f"the start of {run}", timeout_s=120.0)
    return str(pods.pods_of(home.k8s, run)[-1]["metadata"]["name"])


def test_a_run_that_waits_for_gpus(home: K8sHome) -> None:
    pods.submit(home.k8s, pods.job("others", _SLEEP, count=3, gpus=4))
    pods.until_running(home.k8s, "others", 3)
    home.submit("-n", "2", "python3", "-c", _SLEEP)
    said = until_why(home, "each of the 3 nodes has too few free GPUs")
    assert "gofer list nodes -t lab" in said
    assert "0/3 nodes are available" in said
    listed = home.gofer("list", "nodes", "-t", "lab").out
    assert listed.count("0/4") == 3
    shown = home.gofer("target", "show", "lab").out
    assert "0 of 12 free" in shown
    foreign = home.gofer("list", "jobs", "--server").out
    assert "others" in foreign and "running" in foreign


def test_a_run_that_can_never_fit_is_refused(home: K8sHome) -> None:
    done = home.gofer("submit", "--no-code", "-n", "16", "true", status=1)
    assert "only 3 of its 4 pods fit on the 3 nodes" in done.err


def test_an_image_that_cannot_be_pulled(home: K8sHome) -> None:
    home.submit("-t", "pulled", "true")
    said = until_why(home, "its image `registry.invalid/team/train:2` cannot be pulled on node")
    assert "the node cannot reach the registry; correct `image:`" in said


def test_a_quota_that_is_used_up(home: K8sHome) -> None:
    home.k8s.kubectl("create", "quota", "team", "--hard=requests.nvidia.com/gpu=2")
    try:
        pods.submit(home.k8s, pods.job("others", _SLEEP, gpus=2))
        pods.until_running(home.k8s, "others")
        home.submit("-n", "2", "true")
        said = until_why(home, "the quota `team` of the namespace is used up (GPUs: 2 of 2 used")
        assert "gofer target show lab" in said
        refused = home.gofer("submit", "--no-code", "-n", "4", "true", status=1).err
        assert "it can never start: the quota `team` of the namespace is too small" in refused
    finally:
        home.k8s.kubectl("delete", "quota", "team")


def test_a_run_that_is_evicted_starts_again_and_says_so(home: K8sHome) -> None:
    run = home.submit("sh", "-c", "test $GOFER_ATTEMPT = 2 || sleep 600")
    faults.evict_pod(home.k8s, pod_of(home, run))
    (ended,) = home.wait(run)
    assert ended["state"] == "succeeded"
    assert [(one["number"], one["reason"]) for one in ended["attempts"]] == [(1, "preempted"), (2, None)]


def test_a_run_that_uses_all_its_memory(home: K8sHome) -> None:
    eat = "a=[]\nwhile True: a.append(bytearray(10**6))"
    run = home.submit("--memory", "100M", "python3", "-c", eat)
    done = home.wait(run)[0]
    assert (done["state"], done["reason"]) == ("failed", "out-of-memory")
    said = home.gofer("why", run).out
    assert "gofer submit -t lab --memory" in said


def test_a_node_that_dies(home: K8sHome) -> None:
    run = home.submit("python3", "-c", _SLEEP)
    name = pod_of(home, run)
    found = next(one for one in pods.pods_of(home.k8s, run) if one["metadata"]["name"] == name)
    node = found["spec"]["nodeName"]
    faults.crash_node(home.k8s, node)
    said = until_why(home, f"its node {node} has not answered for")
    assert "gofer" in said
    said = until_why(home, "another pod comes only when the node is back or removed")
    assert "gofer list nodes -t lab" in said
