"""What a submission asks the cluster before anything is sent: whether the namespace would take the pods, and
which nodes have the wanted GPUs.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping

from gofer.backends.kubernetes import manifest, names
from gofer.backends.kubernetes.capacity import GPU_LABELS
from gofer.backends.kubernetes.connection import KubernetesConnection
from gofer.backends.kubernetes.manifest import GpuNodes, PodNeeds
from gofer.backends.kubernetes.node_room import read_nodes
from gofer.backends.kubernetes.state.scheduling import explain_refusal
from gofer.backends.node_needs import is_of_type
from gofer.errors import CheckFailed
from gofer.model.layout import Layout
from gofer.transport.bundle import mark
from gofer.transport.kubernetes.client import KubeApiError

# An accepted template is not tried again for this long; rules of a namespace rarely change.
_ACCEPTED_S = 3600.0
# Labels with the name of a node's GPUs, and the type of machine for nodes without such a label.
_LABELS = (*GPU_LABELS, "node.kubernetes.io/instance-type")


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
        refusal = explain_refusal(message)
        # A quota that is used up now is a reason to wait.
        if refusal.can_start or _is_without_right(error):
            return
        if error.status in (400, 403, 404, 422):
            raise CheckFailed(
                f"the namespace `{connection.namespace}` refuses the pods of this run: {refusal.words}",
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
    for is_fresh in (False, True):  # nodes may have come since they were listed
        found = _labels(connection, is_fresh=is_fresh)
        for label in _LABELS:
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


def _labels(connection: KubernetesConnection, *, is_fresh: bool) -> Mapping[str, list[str]]:
    """The values that the labels with the names of GPUs have on the nodes."""
    nodes = read_nodes(connection, is_fresh=is_fresh)
    if nodes is None:
        raise CheckFailed(
            f"you may not list the nodes of the target `{connection.target}`, so their GPUs are not known",
            hint="leave `gpu_type` out and choose nodes with `node_selector:` in the target",
        )
    found: dict[str, set[str]] = {}
    for node in nodes:
        for label, value in node["metadata"]["labels"].items():
            if label in _LABELS:
                found.setdefault(label, set()).add(str(value))
    return {label: sorted(values) for label, values in found.items()}


def _is_without_right(error: KubeApiError) -> bool:
    """Whether the person may not create pods, which the check needs and a run does not."""
    return error.status == 403 and "cannot create resource" in str(error)


def _hint(target: str, message: str) -> str:
    if "exceeded quota" in message:
        return f"ask for less, or who owns the namespace for more: `gofer target show {target}`"
    if "failed quota" in message:
        return "ask for what the quota names: `--memory 8G`, `--cpus 4`, or `cpus_per_node:` of the target"
    if "PodSecurity" in message or "runAsNonRoot" in message:
        return f"set `security: restricted` in the target `{target}`, or choose another namespace"
    if "serviceaccount" in message.lower() or "service account" in message:
        return f"set `service_account:` of the target `{target}` to one that the namespace has"
    if "PriorityClass" in message:
        return f"correct `priority_class:` of the target `{target}`: `kubectl get priorityclasses`"
    return f"`gofer doctor kubernetes {target}` says more"
