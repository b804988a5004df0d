"""Jobs for tests, as a user would write them."""

from __future__ import annotations

import json
from typing import Any

from clusters.k8s.cluster import Kubernetes
from clusters.k8s.images import PYTHON

# What the Pod Security Standard `restricted` asks of a container.
RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def job(name: str, code: str, *, count: int = 1, gpus: int = 0, **pod: Any) -> dict[str, Any]:
    """An indexed job of `count` pods that run Python code. `pod` are keys of the pod's spec."""
    container: dict[str, Any] = {
        "name": "main",
        "image": PYTHON,
        "command": ["python3", "-u", "-c", code],
        "securityContext": RESTRICTED,
    }
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [container], **pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completions": count,
            "parallelism": count,
            "completionMode": "Indexed",
            "backoffLimit": 4,
            "template": {"spec": spec},
        },
    }


def submit(k8s: Kubernetes, document: dict[str, Any]) -> None:
    k8s.kubectl("create", "-f", "-", text=json.dumps(document))


def status(k8s: Kubernetes, name: str) -> dict[str, Any]:
    """The status of the job."""
    found: dict[str, Any] = json.loads(k8s.kubectl("get", "job", name, "-o", "json"))["status"]
    return found


def pods_of(k8s: Kubernetes, name: str) -> list[dict[str, Any]]:
    """The pods of the job."""
    listed = k8s.kubectl("get", "pods", f"--selector=job-name={name}", "-o", "json")
    found: list[dict[str, Any]] = json.loads(listed)["items"]
    return found


def until_running(k8s: Kubernetes, name: str, count: int = 1) -> None:
    """Until the job has `count` pods whose container runs."""
    k8s.until(lambda: status(k8s, name).get("ready") == count, f"{count} running pods of {name}")


def until_ended(k8s: Kubernetes, name: str) -> str:
    """Until the job is Complete or Failed; which of them."""

    def final_conditions() -> list[str]:
        conditions = status(k8s, name).get("conditions", ())
        return [
            one["type"]
            for one in conditions
            if one["type"] in ("Complete", "Failed") and one["status"] == "True"
        ]

    k8s.until(final_conditions, f"the end of the job {name}")
    return final_conditions()[0]


def logs_of(k8s: Kubernetes, name: str) -> list[str]:
    """The lines that the pods of the job wrote, sorted."""
    return sorted(k8s.kubectl("logs", f"--selector=job-name={name}", "--tail=-1").splitlines())
