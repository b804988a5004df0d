"""Records what a real cluster says of Jobs in trouble, for the tests that need no cluster.

    make k8s-up
    PYTHONPATH=tests python -m k8s.record_samples

writes tests/unit/kubernetes/samples/<version>/<case>.json, each with a Job, its pods and their events. With
names of cases, only those are recorded.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from clusters.k8s import faults
from clusters.k8s.cluster import Kubernetes, attach
from clusters.k8s.images import PYTHON
from k8s.pods import RESTRICTED

SAMPLES = Path(__file__).parent.parent / "unit" / "kubernetes" / "samples"
SPACES = ("runs", "limited", "strict")
_WAIT_S = 90.0
_SLEEP = "import time; time.sleep(600)"
_OUTCOME = {"state": "failed", "reason": "exit-code", "detail": None, "exit_code": 3}
_WRITE = f"open('/dev/termination-log','w').write({json.dumps(_OUTCOME)!r}); raise SystemExit(91)"
_EAT = "a=[]\nwhile True: a.append(bytearray(10**6))"
_POLICY = {
    "rules": [
        {"action": "FailJob", "onExitCodes": {"containerName": "gofer", "operator": "In", "values": [91]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
}


class Case(NamedTuple):
    """`spec` and `pod` are keys of the Job and of its pods, `until` the text that its objects must show."""

    code: str
    until: str
    namespace: str = "runs"
    spec: Mapping[str, Any] = MappingProxyType({})
    pod: Mapping[str, Any] = MappingProxyType({})
    container: Mapping[str, Any] = MappingProxyType({})


_GPUS = {"resources": {"limits": {"nvidia.com/gpu": "16"}}}
_ONE_NODE = {"resources": {"limits": {"nvidia.com/gpu": "4"}}}
CASES = {
    "running": Case(_SLEEP, '"ready": 1'),
    "two-nodes": Case(_SLEEP, '"ready": 2', spec={"completions": 2, "parallelism": 2}),
    "half-of-two": Case(
        _SLEEP,
        "Insufficient nvidia.com/gpu",
        spec={"completions": 4, "parallelism": 4},
        container={"resources": {"limits": {"nvidia.com/gpu": "4"}}},
    ),
    "succeeded": Case("print('done')", '"type": "Complete"'),
    "exit-3": Case(
        "print('no such file'); raise SystemExit(3)", '"type": "Failed"', spec={"backoffLimit": 0}
    ),
    "settled": Case(_WRITE, '"type": "Failed"', spec={"podFailurePolicy": _POLICY}),
    "restarting": Case("raise SystemExit(3)", '"failed": 1', spec={"backoffLimit": 6}),
    "image-missing": Case(_SLEEP, "ImagePullBackOff", container={"image": "registry.invalid/team/train:2"}),
    "image-absent": Case(
        _SLEEP, "ErrImageNeverPull", container={"image": "localhost/nothing:1", "imagePullPolicy": "Never"}
    ),
    "image-name": Case(_SLEEP, "InvalidImageName", container={"image": "UPPER case"}),
    "no-python": Case(
        _SLEEP, "StartError", spec={"backoffLimit": 1}, container={"command": ["python4", "-V"]}
    ),
    "secret-missing": Case(
        _SLEEP,
        "CreateContainerConfigError",
        container={"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "a"}}}]},
    ),
    "root-image": Case(
        _SLEEP,
        "CreateContainerConfigError",
        container={"securityContext": {"runAsNonRoot": True, "allowPrivilegeEscalation": False}},
    ),
    "volume-missing": Case(
        _SLEEP,
        "FailedMount",
        pod={"volumes": [{"name": "data", "configMap": {"name": "absent"}}]},
        container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
    ),
    "claim-missing": Case(
        _SLEEP,
        '"PodScheduled"',
        pod={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}]},
    ),
    "too-many-gpus": Case(_SLEEP, "Insufficient nvidia.com/gpu", container=_GPUS),
    "no-such-node": Case(_SLEEP, "node affinity", pod={"nodeSelector": {"gpu": "h100"}}),
    "gated": Case(_SLEEP, "SchedulingGated", pod={"schedulingGates": [{"name": "example.com/hold"}]}),
    "no-scheduler": Case(_SLEEP, '"active": 1', pod={"schedulerName": "volcano"}),
    "suspended": Case(_SLEEP, '"type": "Suspended"', spec={"suspend": True}),
    "quota": Case(_SLEEP, "exceeded quota", namespace="limited", container=_GPUS),
    "no-account": Case(_SLEEP, "FailedCreate", pod={"serviceAccountName": "absent"}),
    "pod-security": Case(
        _SLEEP,
        "violates PodSecurity",
        namespace="strict",
        container={"securityContext": {"privileged": False}},
    ),
    "out-of-memory": Case(
        _EAT,
        '"type": "Failed"',
        spec={"backoffLimit": 0},
        container={"resources": {"limits": {"memory": "64Mi"}}},
    ),
    "child-out-of-memory": Case(
        f"import subprocess,sys; subprocess.run([sys.executable,'-c',{_EAT!r}])",
        '"type": "Complete"',
        container={"resources": {"limits": {"memory": "96Mi"}}},
    ),
    "killed": Case(
        "import os,signal; signal.signal(15, signal.SIG_DFL); os._exit(137)",
        '"type": "Failed"',
        spec={"backoffLimit": 0},
    ),
    "job-deadline": Case(_SLEEP, '"type": "Failed"', spec={"activeDeadlineSeconds": 4}),
    "pod-deadline": Case(
        _SLEEP, '"type": "Failed"', spec={"backoffLimit": 0}, pod={"activeDeadlineSeconds": 4}
    ),
    "disk-limit": Case(
        "open('/tmp/a','wb').write(bytes(64<<20)); import time; time.sleep(600)",
        "Evicted",
        container={"resources": {"limits": {"ephemeral-storage": "16Mi"}}},
    ),
}


_SAFE = {"podFailurePolicy": _POLICY, "podReplacementPolicy": "Failed"}
TAKEN = {
    "evicted": Case(_SLEEP, "", container=_ONE_NODE),
    "preempted": Case(
        _SLEEP,
        "",
        spec={"completions": 3, "parallelism": 3},
        pod={"priorityClassName": "low"},
        container=_ONE_NODE,
    ),
    "crashed": Case(_SLEEP, "", container=_ONE_NODE),
    "crashed-safe": Case(_SLEEP, "", spec=_SAFE, container=_ONE_NODE),
    "filled": Case(_SLEEP, "", container=_ONE_NODE),
}


def manifest(name: str, case: Case) -> dict[str, Any]:
    """The Job of a case, with the labels that gofer gives."""
    container = {
        "name": "gofer",
        "image": PYTHON,
        "command": ["python3", "-u", "-c", case.code],
        "securityContext": RESTRICTED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **case.container,
    }
    labels = {"app.kubernetes.io/managed-by": "gofer", "gofer.run/id": name, "gofer.run/user": "ada"}
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 2,
        "containers": [container],
        **case.pod,
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    job = {"completionMode": "Indexed", "completions": 1, "parallelism": 1, "backoffLimit": 4, **case.spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {**job, "template": template},
    }


def submit(k8s: Kubernetes, name: str, case: Case) -> None:
    text = json.dumps(manifest(name, case))
    k8s.kubectl("create", "-n", case.namespace, "-f", "-", text=text)


def read(k8s: Kubernetes, name: str, namespace: str) -> dict[str, Any]:
    """The Job, its pods, and the events of both."""
    job = json.loads(k8s.kubectl("get", "job", name, "-n", namespace, "-o", "json"))
    chosen = ("-n", namespace, "-o", "json")
    pods = json.loads(k8s.kubectl("get", "pods", f"--selector=job-name={name}", *chosen))["items"]
    events = json.loads(k8s.kubectl("get", "events", *chosen))["items"]
    ours = {job["metadata"]["uid"], *(pod["metadata"]["uid"] for pod in pods)}
    found = [event for event in events if event["involvedObject"].get("uid") in ours]
    for one in (job, *pods, *found):
        one["metadata"].pop("managedFields", None)
    return {"job": job, "pods": pods, "events": found}


def keep(k8s: Kubernetes, name: str, folder: Path, *, until: Sequence[str], namespace: str = "runs") -> None:
    """Write the sample when its objects show one of these texts."""
    end = time.monotonic() + _WAIT_S
    while True:
        sample = read(k8s, name, namespace)
        shows = any(text in json.dumps(sample) for text in until)
        if shows or time.monotonic() > end:
            break
        time.sleep(0.5)
    sample["read_at"] = time.time()
    (folder / f"{name}.json").write_text(json.dumps(sample, indent=1, sort_keys=True) + "\n")
    print(name if shows else f"{name}: does not show what it should", flush=True)


def prepare(k8s: Kubernetes) -> None:
    """The namespaces: one without limits, one with a quota, one with the standard `restricted`."""
    for name in SPACES:
        k8s.kubectl("create", "namespace", name)
    k8s.kubectl("create", "quota", "gpus", "-n", "limited", "--hard=requests.nvidia.com/gpu=8,pods=20")
    k8s.kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
    for name, value in (("low", "10"), ("high", "1000")):
        k8s.kubectl("create", "priorityclass", name, f"--value={value}")


def clear(k8s: Kubernetes) -> None:
    """Remove what `prepare` and the cases made."""
    k8s.kubectl("delete", "namespace", *SPACES, "--ignore-not-found", "--wait=true", timeout_s=120.0)
    k8s.kubectl("delete", "priorityclass", "low", "high", "--ignore-not-found")


def record_plain(k8s: Kubernetes, folder: Path, wanted: set[str]) -> None:
    """The cases in which no node fails; all at once."""
    chosen = {name: case for name, case in CASES.items() if not wanted or name in wanted}
    for name, case in chosen.items():
        submit(k8s, name, case)
    for name, case in chosen.items():
        keep(k8s, name, folder, until=[case.until], namespace=case.namespace)


def record_taken(k8s: Kubernetes, folder: Path, wanted: set[str]) -> None:
    """The cases in which the cluster takes a pod away."""
    for name, case in TAKEN.items():
        if not wanted or name in wanted:
            k8s.kubectl("delete", "jobs", "--all", "-n", "runs", "--wait=true")
            submit(k8s, name, case)
            _until_ready(k8s, name, case.spec.get("parallelism", 1))
            _break(k8s, name, read(k8s, name, "runs")["pods"][0])
            _keep_stages(k8s, name, folder)
            faults.heal(k8s)


def _until_ready(k8s: Kubernetes, name: str, count: int) -> None:
    k8s.until(lambda: read(k8s, name, "runs")["job"]["status"].get("ready") == count, f"the pods of {name}")


def _break(k8s: Kubernetes, name: str, pod: dict[str, Any]) -> None:
    node = pod["spec"]["nodeName"]
    if name == "evicted":
        path = f"/api/v1/namespaces/runs/pods/{pod['metadata']['name']}/eviction"
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}
        k8s.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(body))
    elif name == "preempted":
        submit(k8s, "urgent", Case(_SLEEP, "", pod={"priorityClassName": "high"}, container=_ONE_NODE))
    elif name == "filled":
        faults.fill_node(k8s, node)
    else:
        faults.crash_node(k8s, node)


def _keep_stages(k8s: Kubernetes, name: str, folder: Path) -> None:
    """A dead node is seen in two stages: it is silent, then its pods are given up."""
    if name.startswith("crashed"):
        keep(k8s, name, folder, until=['"status": "False", "type": "Ready"'])
        (folder / f"{name}.json").rename(folder / f"{name}-silent.json")
    given_up = ("DeletionByTaintManager", "TerminationByKubelet", "PreemptionByScheduler", "EvictionByEvict")
    keep(k8s, name, folder, until=given_up)


def main(names: list[str]) -> None:
    k8s = attach(Path(".clusters/k8s"))
    version = json.loads(k8s.kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    folder = SAMPLES / version.lstrip("v")
    folder.mkdir(parents=True, exist_ok=True)
    clear(k8s)
    prepare(k8s)
    try:
        record_plain(k8s, folder, set(names))
        record_taken(k8s, folder, set(names))
    finally:
        clear(k8s)


if __name__ == "__main__":
    main(sys.argv[1:])
