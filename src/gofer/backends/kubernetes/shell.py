"""Opens a shell in the pod of a run, or a tunnel out of it: finds the pod and makes the local command line.

Both go through pods/exec, so they need no SSH server, no open port and no service in the cluster.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from gofer.backends.base import RunRef
from gofer.backends.kubernetes import names
from gofer.backends.kubernetes.connection import KubernetesConnection
from gofer.backends.kubernetes.state.job_facts import read_pod
from gofer.errors import CheckFailed
from gofer.node import run_shell, socket_relay
from gofer.node.kubernetes import places

Json = Mapping[str, Any]
_AGENT = f"{places.AGENT_FOLDER}/{places.AGENT_FILE}"


class LivePod(NamedTuple):
    """A pod whose container runs, and the command line of its Python."""

    name: str
    python: str


def shell_command(
    connection: KubernetesConnection, run: RunRef, command: Sequence[str], *, terminal: bool, node: int | None
) -> list[str]:
    """The local command line for a shell, or for `command`, in the pod of a node of a running run.

    CheckFailed when the run has no such pod, or when the package for shells is missing.
    """
    _check_package()
    pod = find_pod(connection, run, node or 0)
    inside = run_shell.program_in_job(pod.python, _AGENT, run.id, command, terminal=terminal, node=node or 0)
    return _words(connection, pod, inside, terminal=terminal)


def tunnel_command(
    connection: KubernetesConnection, run: RunRef, address: str, *, node: int = 0
) -> list[str]:
    """The local command line whose stdin and stdout are a connection to `address`, from the pod of a node.

    `address` and errors are as for gofer.node.socket_relay and `shell_command`.
    """
    _check_package()
    pod = find_pod(connection, run, node)
    return _words(connection, pod, socket_relay.program(pod.python, _AGENT, address), terminal=False)


def find_pod(connection: KubernetesConnection, run: RunRef, node: int) -> LivePod:
    """The pod of a node of the run. CheckFailed when it has none that runs."""
    name = names.job_name(run)
    index = node if run.row is None else run.row * _nodes_of(connection, name) + node
    found = [pod for pod in pods_of(connection, name) if read_pod(pod).index == index]
    # The newest comes last: an earlier one was replaced, also where nobody knows whether it still runs.
    newest = max(found, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default=None)
    which = f"node {node} of {run.id}"
    if newest is None:
        raise CheckFailed(f"{which} has no pod", hint=f"`gofer why {run.id}`")
    facts = read_pod(newest)
    if facts.started_at is None or facts.ended_at is not None or facts.is_leaving:
        state = "is being removed" if facts.is_leaving else f"is {facts.waiting or facts.phase}"
        raise CheckFailed(f"{which} does not run: its pod {facts.name} {state}", hint=f"`gofer why {run.id}`")
    return LivePod(facts.name, _python_of(newest))


def pods_of(connection: KubernetesConnection, job: str) -> list[Json]:
    """The pods of a Job, in no order."""
    path = names.core_path(connection.namespace, "pods")
    listed = connection.client.get(path, {"labelSelector": f"{names.JOB_NAME_LABEL}={job}"})
    return list(listed.get("items") or ())


def _nodes_of(connection: KubernetesConnection, job: str) -> int:
    """The nodes of each row of an array."""
    found = connection.client.get(names.jobs_path(connection.namespace, job))
    notes = found["metadata"].get("annotations") or {}
    return int(notes.get(names.NODES_NOTE) or 1)


def _python_of(pod: Json) -> str:
    """The program that runs the agent in the pod: the image's Python, or one that gofer brought."""
    for container in pod["spec"]["containers"]:
        if container["name"] == names.CONTAINER:
            return str((container.get("command") or ["python3"])[0])
    return "python3"


def _words(
    connection: KubernetesConnection, pod: LivePod, command: Sequence[str], *, terminal: bool
) -> list[str]:
    from gofer.transport.kubernetes.exec_program import ContextName, exec_words  # needs the extra
    from gofer.transport.kubernetes.exec_stream import ExecRequest

    request = ExecRequest(connection.namespace, pod.name, names.CONTAINER, tuple(command), terminal)
    options = connection.options
    if options.aks is not None:
        get = f"`az aks get-credentials -g {options.aks.resource_group} -n {options.aks.cluster}`"
        raise CheckFailed(
            f"shells need a kubeconfig, and the target `{connection.target}` names its cluster by `aks`",
            hint=f"{get}, and a target with `context: {options.aks.cluster}` in place of `aks`",
        )
    kept = os.path.join(connection.folder, "credentials")
    return exec_words(ContextName(options.kubeconfig or "", options.context or "", kept), request)


def _check_package() -> None:
    if find_spec("websockets") is None:
        raise CheckFailed(
            "shells in pods need the package websockets", hint="`pip install 'gofer[kubernetes]'`"
        )
