"""Runs on a real cluster whose pods are lost, stopped or refused, and the requests that they cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_K8S
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s import faults
from clusters.k8s.cluster import Kubernetes
from clusters.k8s.images import PLAIN, PYTHON
from home import until
from k8s import pods
from k8s.k8s_home import K8sHome

pytestmark = ON_K8S

# Goes on from the step that the attempt before has written.
_STEPS = """
import os, pathlib, sys, time
path = pathlib.Path(os.environ["GOFER_OUTPUT_DIR"], "step-" + os.environ.get("RANK", "0"))
step = int(path.read_text()) if path.exists() else 0
print("begins at", step, flush=True)
while step < int(sys.argv[1]):
    step += 1
    half = path.with_suffix(".half")
    half.write_text(str(step))
    half.rename(path)
    time.sleep(0.2)
print("ends at", step, flush=True)
"""
_FAST = "  fast: {kind: kubernetes, kubeconfig: %s, image: %s, gpus_per_node: 4, store: lab, recovery: fast}"


@pytest.fixture
def home(tmp_path: Path, k8s: Kubernetes) -> Iterator[K8sHome]:
    made = K8sHome(tmp_path, k8s, more=_FAST % (k8s.site.kubeconfig, PYTHON))
    (made.folder / "steps.py").write_text(_STEPS)
    yield made
    made.close()


def until_logged(home: K8sHome, run: str, words: str) -> None:
    until(lambda: words in home.gofer("logs", run, status=None).out, f"`{words}` in the log of {run}")


def node_of(home: K8sHome, run: str, index: int) -> str:
    """The node of the pod with this index."""
    found = [
        pod for pod in pods.pods_of(home.k8s, run) if pod["metadata"]["name"].startswith(f"{run}-{index}-")
    ]
    return str(found[-1]["spec"]["nodeName"])


def submit(home: K8sHome, *words: str) -> str:
    """The id of a run with the code of the project."""
    return home.gofer("submit", "-Q", *words).out.strip()


def change(home: K8sHome, options: str) -> None:
    """Give the target `lab` more options."""
    path = home.folder / "gofer.yaml"
    path.write_text(path.read_text().replace("store: lab", f"{options}, store: lab", 1))


def job_names(k8s: Kubernetes, kind: str) -> list[str]:
    listed = k8s.kubectl("get", kind, "-l", "app.kubernetes.io/managed-by=gofer", "-o", "name")
    return [line.partition("/")[2] for line in listed.split()]


def test_a_pod_that_is_evicted_goes_on_elsewhere(home: K8sHome) -> None:
    run = submit(home, "python3", "steps.py", "60")
    until_logged(home, run, "begins at 0")
    faults.evict_pod(home.k8s, pods.pods_of(home.k8s, run)[0]["metadata"]["name"])
    home.gofer("wait", run)
    facts = home.view(run)
    assert (facts["state"], [one["reason"] for one in facts["attempts"]]) == (
        "succeeded",
        ["preempted", None],
    )
    log = home.gofer("logs", run).out
    assert "ends at 60" in log and "begins at 0" not in log


def test_a_run_survives_a_node_that_never_comes_back(home: K8sHome) -> None:
    """The Job waits for the pod on the dead node for ever; the run does not."""
    run = submit(home, "-t", "fast", "-n", "8", "python3", "steps.py", "40")
    until_logged(home, run, "begins at 0")
    faults.crash_node(home.k8s, node_of(home, run, 1))
    home.gofer("wait", run)
    facts = home.view(run)
    assert facts["state"] == "succeeded"
    assert [one["state"] for one in facts["attempts"]] == ["lost", "succeeded"]
    assert "ends at 40" in home.gofer("logs", run, "--rank", "all").out


def test_another_person_s_machine_stops_a_run(home: K8sHome, tmp_path: Path, k8s: Kubernetes) -> None:
    """It reads in the Secret of the run how to reach the agents, and the end is told in their words."""
    script = "trap 'echo saved; exit 3' TERM; echo up; sleep 300 & wait"
    run = home.submit("sh", "-c", script)
    until_logged(home, run, "up")
    other = K8sHome(tmp_path / "other one", k8s)
    text = (home.folder / "gofer.yaml").read_text()
    (other.folder / "gofer.yaml").write_text(text)
    other.gofer("ledger", "rebuild")
    other.gofer("abort", run)
    assert home.gofer("wait", run, status=None).status != 0
    for each in (home, other):
        facts = each.view(run)
        assert (facts["state"], facts["reason"]) == ("cancelled", "user")
    assert home.gofer("logs", run).out == "up\nsaved\n"
    other.close()


def test_a_run_that_waits_is_stopped(home: K8sHome) -> None:
    pods.submit(home.k8s, pods.job("others", "import time; time.sleep(600)", count=3, gpus=4))
    pods.until_running(home.k8s, "others", 3)
    run = home.submit("-n", "2", "true")
    until(lambda: home.view(run)["state"] == "queued", "a queued run")
    home.gofer("abort", run)
    facts = home.view(run)
    assert (facts["state"], facts["reason"], facts["attempts"]) == ("cancelled", "user", [])
    assert pods.pods_of(home.k8s, run) == []


def test_what_a_namespace_refuses_is_refused_before_the_run_is_recorded(home: K8sHome) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    home.k8s.kubectl("create", "namespace", "strict")
    try:
        home.k8s.kubectl("label", "namespace", "strict", label)
        change(home, "namespace: strict")
        home.gofer("submit", "--wait", "true")
        change(home, "security: image")
        done = home.gofer("submit", "true", status=1)
        assert "refuses the pods of this run" in done.err
        assert "set `security: restricted` in the target `lab`" in done.err
        assert len(json.loads(home.gofer("list", "runs", "--json").out)) == 1
    finally:
        home.k8s.kubectl("delete", "namespace", "strict", "--wait=false")


def test_an_image_s_own_user_runs_the_command_where_the_target_says_so(home: K8sHome) -> None:
    show = "import getpass, os; print(os.getuid(), getpass.getuser(), os.path.expanduser('~'))"
    (home.folder / "show.py").write_text(show)
    assert home.gofer("submit", "-f", "python3", "show.py").out == "65532 gofer /gofer/work/home\n"
    change(home, "security: image")
    assert home.gofer("submit", "-f", "python3", "show.py").out == "0 root /root\n"


def test_a_run_costs_three_writes_and_leaves_its_job_alone(home: K8sHome) -> None:
    home.gofer("submit", "--wait", "true")  # the agent and the form of the pod are known from now on
    before = len(home.k8s.requests())
    run = home.submit("true")
    writes = [one for one in home.k8s.requests()[before:] if one.is_write]
    assert [(one.verb, one.path.partition("/default/")[2].partition("?")[0]) for one in writes] == [
        ("create", "secrets"),
        ("create", "jobs"),
        ("patch", f"secrets/{run}"),
    ]
    home.gofer("wait", run)
    assert run in job_names(home.k8s, "jobs")
    assert job_names(home.k8s, "secrets") == []


def test_who_waits_is_told_by_the_cluster(home: K8sHome) -> None:
    """No question at intervals could end this wait so soon after the run, and few are asked."""
    run = home.submit("sh", "-c", "sleep 20")
    before = len(home.k8s.requests())
    home.gofer("wait", run)

    def count(verb: str) -> int:
        return [one.verb for one in home.k8s.requests()[before:]].count(verb)

    until(lambda: count("watch"), "a watch in the log of the server")  # it is logged when it has ended
    assert count("list") < 30


def test_a_request_that_is_too_large_for_a_secret_is_in_the_store(home: K8sHome) -> None:
    rows = home.root / "rows.csv"
    rows.write_text("word\n" + "".join(f"{str(number) * 70_000}\n" for number in range(9)))
    run = home.submit("--array", str(rows), "--wait", "sh", "-c", 'echo "${#GOFER_ARG_WORD}"')
    assert home.gofer("logs", f"{run}-8").out == "70000\n"


def test_an_image_without_python_gets_that_of_another_image(home: K8sHome) -> None:
    path = home.folder / "gofer.yaml"
    path.write_text(
        path.read_text().replace(f'image: "{PYTHON}"', f'image: "{PLAIN}", python_image: "{PYTHON}"', 1)
    )
    script = "command -v python3 || echo none; env | grep -c ^PYTHON.*gofer"
    done = home.gofer("submit", "--no-code", "-f", "sh", "-c", script, status=None)
    assert done.out == "none\n0\n", done.err
