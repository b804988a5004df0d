"""What goes wrong with a Kubernetes cluster, by command, and the way back.

A fault is there when its function returns, unless the docstring says otherwise. What the cluster makes of a
fault takes longer: a node that is silent is missed after some 17 s, and its pods are replaced after 30 s.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from clusters import groups
from clusters.cells import close, find, find_one
from clusters.errors import ClusterError
from clusters.k8s.cluster import Kubernetes
from clusters.k8s.control_plane import PARTS, checked_part
from clusters.k8s.nodes import DAEMONS, wire_name
from clusters.k8s.processes import runs, send
from clusters.network import set_port

# Those whose silence is that of the node. Containers go on without them.
_SPEAKERS = ("kubelet", "containerd")
_DRAIN_TIMEOUT_S = 120.0


def crash_node(k8s: Kubernetes, name: str) -> None:
    """A power cut: every process of the node ends, without notice to the cluster."""
    k8s.node(name).mark()
    close(find_one(k8s.folder, name))


def cut_node(k8s: Kubernetes, name: str) -> None:
    """Pull the cable of the node: its containers go on, and reach nothing beyond the node."""
    k8s.node(name).mark()
    set_port(k8s.switch, wire_name(k8s.node(name)), up=False)


def freeze_node(k8s: Kubernetes, name: str) -> None:
    """Stop kubelet and containerd of the node: its containers go on, and the cluster gives them up."""
    k8s.node(name).mark()
    _signal_speakers(k8s, name, "STOP")


def stop_pods(k8s: Kubernetes, name: str) -> None:
    """Stop every process of the pods of the node, as SIGSTOP does: the node itself notices nothing."""
    _signal_pods(k8s, name, signal.SIGSTOP)


def drain_node(k8s: Kubernetes, name: str) -> None:
    """Evict all pods of the node, wait for their end, and let no pod begin there."""
    options = ("--ignore-daemonsets", "--force", "--delete-emptydir-data")
    k8s.kubectl("drain", name, *options, timeout_s=_DRAIN_TIMEOUT_S)


def fill_node(k8s: Kubernetes, name: str) -> None:
    """Let the node find its memory short: within some 10 s it evicts its pods, one after the other."""
    k8s.kill_daemon(name, "kubelet")
    k8s.node(name).set_memory(is_short=True)
    k8s.start_daemon(name, "kubelet")


def evict_pod(k8s: Kubernetes, name: str) -> None:
    """Ask the cluster to end a pod of the default namespace, as a drain and an autoscaler do."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/default/pods/{name}/eviction"
    k8s.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(eviction))


def forget_node(k8s: Kubernetes, name: str) -> None:
    """Delete the node from the cluster, as an autoscaler does, and switch it off."""
    crash_node(k8s, name)
    k8s.kubectl("delete", "node", name)


def kill_part(k8s: Kubernetes, name: str) -> None:
    """End a part of the control plane, such as etcd, at once. Nobody starts it again."""
    k8s.kill_part(name)


def freeze_part(k8s: Kubernetes, name: str) -> None:
    """Stop a part of the control plane: connections stay open, and nothing is answered."""
    send(k8s.control, checked_part(name), "STOP")


class Fault(NamedTuple):
    """A fault as the command line names it, its argument, and its effect."""

    takes: str
    cause: Callable[[Kubernetes, str], None]


FAULTS: Mapping[str, Fault] = {
    "crash": Fault("NODE", crash_node),
    "cut": Fault("NODE", cut_node),
    "freeze": Fault("NODE", freeze_node),
    "stop": Fault("NODE", stop_pods),
    "drain": Fault("NODE", drain_node),
    "fill": Fault("NODE", fill_node),
    "forget": Fault("NODE", forget_node),
    "evict": Fault("POD", evict_pod),
    "kill": Fault("PART", kill_part),
    "hang": Fault("PART", freeze_part),
}


def heal(k8s: Kubernetes) -> None:
    """Undo all faults, and wait until all parts and all nodes work. Idempotent."""
    for name in PARTS:
        if runs(k8s.control, name):
            send(k8s.control, name, "CONT")
        else:
            k8s.start_part(name)
    k8s.until(lambda: k8s.answers() and k8s.is_ready(), "the control plane")
    for name in k8s.nodes:
        _heal_node(k8s, name)
    k8s.until_ready(*k8s.nodes)


def reset(k8s: Kubernetes) -> None:
    """As after `up`, except for namespaces: no faults, no jobs and no pods."""
    heal(k8s)
    k8s.kubectl("delete", "jobs,pods", "--all", "--all-namespaces", "--force", "--grace-period=0")


def _heal_node(k8s: Kubernetes, name: str) -> None:
    set_port(k8s.switch, wire_name(k8s.node(name)), up=True)
    was_short = k8s.node(name).set_memory(is_short=False)
    cell = find(k8s.folder).get(name)
    if cell is None or not runs(cell, "containerd"):
        if cell:
            close(cell)
        k8s.start_node(name)
    else:
        _signal_speakers(k8s, name, "CONT")
        _signal_pods(k8s, name, signal.SIGCONT)
        if was_short:
            k8s.kill_daemon(name, "kubelet")
        for daemon in DAEMONS:
            k8s.start_daemon(name, daemon)
    k8s.break_gpus(name)
    with suppress(ClusterError):  # the node has not yet come back
        k8s.kubectl("uncordon", name)


def _signal_pods(k8s: Kubernetes, name: str, number: signal.Signals) -> None:
    for pid in groups.members(k8s.node(name).group):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _signal_speakers(k8s: Kubernetes, name: str, word: str) -> None:
    cell = find_one(k8s.folder, name)
    for speaker in _SPEAKERS:
        with suppress(ClusterError):  # it does not run
            send(cell, speaker, word)
