"""What goes wrong in the cluster itself: its pods, its nodes and its control plane are lost, for real."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from clusters.errors import ClusterError
from clusters.k8s import faults
from clusters.k8s.cluster import Kubernetes

_KINDS = {
    "pod deleted": 6.0,
    "pod deleted at once": 4.0,
    "pod evicted": 4.0,
    "node crashed": 2.0,
    "node frozen": 1.0,
    "node cut off": 1.0,
    "node drained": 1.0,
    "API server killed": 2.0,
    "etcd killed": 1.0,
    "API server frozen": 1.0,
}
# A node that is silent for longer than this is missed, and its pods are given up some ten seconds later.
_SHORT_S, _LONG_S = 3.0, 32.0
_AWAY_S = 3.0
_OWN = "app.kubernetes.io/managed-by=gofer"


@dataclass
class ClusterFaults:
    """`pods` counts the running pods of gofer that were lost, `nodes` the nodes, `parts` the servers."""

    k8s: Kubernetes
    met: Counter[str] = field(default_factory=Counter)
    pods: int = 0
    nodes: int = 0
    parts: int = 0

    def make(self, rng: Random) -> None:
        """One fault, and the way back. One that hit nothing, such as no pod, is not counted."""
        kind = rng.choices(list(_KINDS), list(_KINDS.values()))[0]
        try:
            if kind.startswith("pod"):
                done = self._lose_pod(kind, rng)
            elif kind.startswith("node"):
                done = self._lose_node(kind, rng)
            else:
                done = self._lose_part(kind)
        except ClusterError:
            faults.heal(self.k8s)  # such as a pod that ended before it could be deleted
            return
        if done:
            self.met[kind] += 1

    def clear(self) -> None:
        faults.heal(self.k8s)

    def _lose_pod(self, kind: str, rng: Random) -> bool:
        running = self._running()
        if not running:
            time.sleep(0.2)
            return False
        name = rng.choice(running)["metadata"]["name"]
        if kind == "pod evicted":
            faults.evict_pod(self.k8s, name)
        else:
            at_once = ("--force", "--grace-period=0") if kind == "pod deleted at once" else ()
            self.k8s.kubectl("delete", "pod", name, "--wait=false", *at_once)
        self.pods += 1
        return True

    def _lose_node(self, kind: str, rng: Random) -> bool:
        name = rng.choice(self.k8s.nodes)
        here = [pod for pod in self._running() if pod["spec"].get("nodeName") == name]
        if not here:
            return False
        lose = {
            "node crashed": faults.crash_node,
            "node frozen": faults.freeze_node,
            "node cut off": faults.cut_node,
            "node drained": faults.drain_node,
        }[kind]
        lose(self.k8s, name)
        is_long = rng.random() < 0.4
        if kind != "node drained":
            time.sleep(_LONG_S if is_long else _SHORT_S)
        faults.heal(self.k8s)
        # A node that was only silent for a moment has lost nothing.
        if kind in ("node frozen", "node cut off") and not is_long:
            return False
        self.pods += len(here)
        self.nodes += 1
        return True

    def _lose_part(self, kind: str) -> bool:
        part = "etcd" if kind.startswith("etcd") else "kube-apiserver"
        if kind.endswith("frozen"):
            faults.freeze_part(self.k8s, part)
        else:
            faults.kill_part(self.k8s, part)
        time.sleep(_AWAY_S)
        faults.heal(self.k8s)
        self.parts += 1
        return True

    def _running(self) -> list[dict[str, Any]]:
        """The pods of gofer that run and are not being deleted."""
        options = ("--selector", _OWN, "--field-selector=status.phase=Running", "-o", "json")
        listed = json.loads(self.k8s.kubectl("get", "pods", *options))["items"]
        return [pod for pod in listed if "deletionTimestamp" not in pod["metadata"]]
