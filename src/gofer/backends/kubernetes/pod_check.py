"""What a submission asks the cluster before anything is sent: whether the namespace would take the pods, and
which nodes have the wanted GPUs.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping

from gofer.backends.kubernetes import manifest, names
from gofer.backends.kubernetes.connection import KubernetesConnection
from gofer.backends.kubernetes.manifest import GpuNodes, PodNeeds
from gofer.backends.node_needs import is_of_type
from gofer.errors import CheckFailed
from gofer.model.layout import Layout
from gofer.transport.bundle import mark
from gofer.transport.kubernetes.client import KubeApiError

# An accepted template is not tried again for this long; rules of a namespace rarely change.
_ACCEPTED_S = 3600.0
_NODES_S = 600.0
# A quota that is used up now is a reason to wait, and so is a server that is too busy to check.
_WAITS = ("exceeded quota", "failed quota")
# Labels with the name of a node's GPUs, by those who set them.
_GPU_LABELS = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
    "node.kubernetes.io/instance-type",
)


def check_pod(connection: KubernetesConnection, needs: PodNeeds) -> None:
    """CheckFailed when the namespace would refuse the pods of such a run: the Job itself would be accepted,
    and would then never get a pod. One request, unless it was accepted in the last hour.
    """
    made = manifest.template("check", needs, connection.options, agent=mark())
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**made["metadata"], "generateName": "gofer-check-"},
        "spec": made["spec"],
    }
    key = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
    seen = connection.known.get("accepted", key)
    if seen is not None and time.time() - float(seen) < _ACCEPTED_S:
        return
    try:
        connection.client.create(names.core_path(connection.namespace, "pods"), body, dry_run=True)
    except KubeApiError as error:
        message = str(error)
        if any(words in message for words in _WAITS) or _is_without_right(error):
            return
        if error.status in (400, 403, 404, 422):
            raise CheckFailed(
                f"the namespace `{connection.namespace}` refuses the pods of this run: {message}",
                hint=_hint(connection.target, message),
            ) from error
        return  # the submission reports what is wrong with the server
    connection.known.put("accepted", key, time.time())


def nodes_with_gpus(connection: KubernetesConnection, asked: str | None, layout: Layout) -> GpuNodes | None:
    """The label and its values by which the nodes with the wanted GPUs are chosen; None where any node will
    do. CheckFailed when no node has such GPUs, or when the nodes cannot be listed.
    """
    wanted = asked or connection.options.gpu_type
    if not wanted or not layout.gpus_per_node:
        return None
    found = _labels(connection)
    for label in _GPU_LABELS:
        values = tuple(value for value in found.get(label, ()) if is_of_type(wanted, value))
        if values:
            return GpuNodes(label, values)
    shown = sorted({value for values in found.values() for value in values})
    known = ", ".join(f"`{value}`" for value in shown)
    has = f"their labels name {known}" if shown else "no label names GPUs"
    raise CheckFailed(
        f"no node of the target `{connection.target}` has GPUs of the type `{wanted}`: {has}",
        hint="ask for one of these with `--gpu-type`, or choose nodes with `node_selector:` in the target",
    )


def _labels(connection: KubernetesConnection) -> Mapping[str, list[str]]:
    """The values that the labels with the names of GPUs have on the nodes; asked once in ten minutes."""
    kept = connection.known.get("nodes", "gpu-labels")
    if kept is not None and time.time() - float(kept["at"]) < _NODES_S:
        return dict(kept["labels"])
    found: dict[str, set[str]] = {}
    try:
        for node in connection.client.list_all("/api/v1/nodes"):
            for label, value in (node["metadata"].get("labels") or {}).items():
                if label in _GPU_LABELS:
                    found.setdefault(label, set()).add(str(value))
    except KubeApiError as error:
        raise CheckFailed(
            f"the nodes of the target `{connection.target}` cannot be listed, so their GPUs are not known: "
            f"{error}",
            hint="leave `gpu_type` out and choose nodes with `node_selector:` in the target",
        ) from error
    labels = {label: sorted(values) for label, values in found.items()}
    connection.known.put("nodes", "gpu-labels", {"at": time.time(), "labels": labels})
    return labels


def _is_without_right(error: KubeApiError) -> bool:
    """Whether the person may not create pods, which the check needs and a run does not."""
    return error.status == 403 and "cannot create resource" in str(error)


def _hint(target: str, message: str) -> str:
    if "PodSecurity" in message or "runAsNonRoot" in message:
        return f"set `security: restricted` in the target `{target}`, or choose another namespace"
    if "serviceaccount" in message.lower() or "service account" in message:
        return f"set `service_account:` of the target `{target}` to one that the namespace has"
    if "PriorityClass" in message:
        return f"correct `priority_class:` of the target `{target}`: `kubectl get priorityclasses`"
    return f"`gofer doctor kubernetes {target}` says more"
