"""A Kubernetes cluster: a control plane and nodes on a network that this machine reaches by one cable.

`up` blocks until pods can be created and all nodes are ready. With KUBECONFIG from `exports`, this machine
is a client with all rights.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clusters import groups
from clusters.cells import (
    Cell,
    Daemon,
    Setup,
    all_run,
    attached,
    call,
    close,
    find,
    find_one,
    open_cell,
    open_wire,
    remove,
    sweep,
)
from clusters.errors import ClusterError
from clusters.k8s.audit import Request, read_requests
from clusters.k8s.control_plane import HEALTH, PARTS, checked_part
from clusters.k8s.images import image_store
from clusters.k8s.node_files import Node
from clusters.k8s.nodes import (
    GPUS,
    daemon_runs,
    kill_daemon,
    make_node,
    start_daemon,
    start_node,
    wire_name,
)
from clusters.k8s.processes import kill
from clusters.k8s.programs import programs
from clusters.k8s.site import API_PORT, Site, plan_site, read_site, write_site
from clusters.k8s.steps import step
from clusters.k8s.store import start_store, store_answers
from clusters.line import Line, Place, open_line
from clusters.network import make_switch, plug_in_caller
from clusters.waiting import TIMEOUT_S, until

NODES = 3
_CONTROL = "control"
_SWITCH = "switch"
_BEFORE_API = ("etcd", "kube-apiserver")


@dataclass(frozen=True)
class Kubernetes:
    """A running cluster."""

    site: Site
    tied: bool = False

    @property
    def folder(self) -> Path:
        return self.site.folder

    @property
    def exports(self) -> dict[str, str]:
        """What must be set for kubectl, and no more."""
        return {"KUBECONFIG": str(self.site.kubeconfig), "KUBECACHEDIR": str(self.folder / "kubectl")}

    @property
    def path(self) -> Path:
        """The folder of kubectl."""
        return programs()

    @property
    def pids(self) -> dict[str, int]:
        """The first process of each machine and of each wire, as seen from outside."""
        return {name: cell.pid for name, cell in find(self.folder).items()}

    @property
    def control(self) -> Cell:
        """The machine of the control plane."""
        return find_one(self.folder, _CONTROL)

    @property
    def switch(self) -> Cell:
        return find_one(self.folder, _SWITCH)

    def open_line(self, name: str) -> tuple[Line, Path]:
        """A line to the API server that can be disturbed, and a kubeconfig that uses it."""
        place = Place(None, "127.0.0.1", 0)
        end = Place(None, self.site.control_address, API_PORT)
        line = open_line(self.folder, name, place, end, tied=self.tied)
        text = self.site.kubeconfig.read_text()
        path = self.folder / f"kubeconfig-{name}"
        path.touch(mode=0o600)
        path.write_text(text.replace(self.site.server, f"https://127.0.0.1:{line.port}"))
        return line, path

    # -- commands

    def kubectl(self, *argv: str, text: str = "", timeout_s: float = 120.0) -> str:
        """A command of kubectl to its end, with `text` on stdin: stdout; ClusterError when it fails."""
        env = {**os.environ, **self.exports}
        return call(str(programs() / "kubectl"), *argv, env=env, text=text, timeout_s=timeout_s)

    def requests(self, agent: str = "gofer") -> list[Request]:
        """What the API server has answered to clients whose name begins so, in order of the answers."""
        return read_requests(self.site.audit_log, agent)

    def until(self, probe: Callable[[], object], what: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Ask until the answer is true; ClusterError with the logs of the cluster when time is up."""
        until(probe, what, lambda: sorted((self.folder / "logs").iterdir()), timeout_s=timeout_s)

    def answers(self) -> bool:
        """Whether the API server is ready."""
        return self._succeeds("get", "--raw=/readyz", "--request-timeout=5s")

    def is_ready(self) -> bool:
        """Whether all parts of the control plane work, so that pods can be created."""
        healthy = all(self._is_healthy(address) for address in HEALTH.values())
        return healthy and self._succeeds("get", "serviceaccount", "default")

    # -- nodes

    @property
    def nodes(self) -> list[str]:
        """Their names, also of those that are off."""
        return [node.name for node in self._nodes()]

    def node(self, name: str) -> Node:
        """The node with this name, on or off; ClusterError when there is none."""
        for node in self._nodes():
            if node.name == name:
                return node
        raise ClusterError(f"there is no node {name!r}: the nodes are {', '.join(self.nodes)}")

    def add_nodes(self, count: int) -> list[str]:
        """Start more nodes; their names. They are not yet ready when this returns."""
        first = max((node.number for node in self._nodes()), default=0) + 1
        made = [Node(self.site, first + at) for at in range(count)]
        for node in made:
            make_node(node, self.switch, tied=self.tied)
        for node in made:
            self.start_node(node.name)
        return [node.name for node in made]

    def scale(self, count: int) -> None:
        """Start nodes, or remove those with the highest numbers, until `count` nodes are ready."""
        self.add_nodes(max(0, count - len(self.nodes)))
        for name in self.nodes[count:]:
            self.remove_node(name)
        self.until_ready(*self.nodes)

    def start_node(self, name: str) -> None:
        """Switch a node on. It is not yet ready when this returns."""
        node = self.node(name)
        start_node(node, find_one(self.folder, wire_name(node)), tied=self.tied)

    def remove_node(self, name: str) -> None:
        """Switch the node off and let the cluster forget it."""
        node = self.node(name)
        for part in (name, wire_name(node)):
            if cell := find(self.folder).get(part):
                close(cell)
        groups.clear(node.group)
        self.kubectl("delete", "node", name, "--ignore-not-found")
        shutil.rmtree(node.folder, ignore_errors=True)

    def start_daemon(self, name: str, daemon: str) -> None:
        """Start a daemon of a node, such as kubelet, unless it runs."""
        node, cell = self.node(name), find_one(self.folder, name)
        if not daemon_runs(node, cell, daemon):
            node.mark()
            start_daemon(node, cell, daemon)

    def kill_daemon(self, name: str, daemon: str) -> None:
        """End a daemon of a node at once, as a crash would; idempotent. Containers go on."""
        kill_daemon(self.node(name), find_one(self.folder, name), daemon)

    def break_gpus(self, name: str, *which: int) -> None:
        """These GPUs of the node are broken from now on, and all others work."""
        (self.node(name).folder / "dev" / "unhealthy").write_text(" ".join(map(str, which)))

    def ready_nodes(self) -> dict[str, int]:
        """The nodes that are ready, and the GPUs of each that pods can get.

        What a node said before its last start or its last fault does not count.
        """
        found = {}
        text = self.kubectl("get", "nodes", *self.nodes, "--ignore-not-found", "-o", "json")
        listed = json.loads(text or '{"items": []}')  # kubectl prints nothing while there are no nodes
        for document in listed.get("items", [listed]):
            status, name = document["status"], document["metadata"]["name"]
            ready = {one["type"]: one for one in status.get("conditions", ())}.get("Ready", {})
            if ready.get("status") == "True" and self.node(name).has_said(ready["lastHeartbeatTime"]):
                found[name] = int(status["allocatable"].get("nvidia.com/gpu", 0))
        return found

    def until_ready(self, *names: str) -> None:
        """Until these nodes are ready, with all their GPUs."""
        self.until(lambda: {self.ready_nodes().get(name) for name in names} <= {GPUS}, f"{', '.join(names)}")

    def _nodes(self) -> list[Node]:
        folders = self.folder.glob("nodes/node*")
        numbers = sorted(int(path.name.removeprefix("node")) for path in folders)
        return [Node(self.site, number) for number in numbers]

    # -- parts of the control plane

    def start_part(self, name: str) -> Daemon:
        """Start a part of the control plane with the state it left; it does not yet answer then."""
        env = {"PATH": f"{programs()}:{os.environ.get('PATH', os.defpath)}"}
        log = self.folder / "logs" / f"{name}.log"
        return self.control.start(PARTS[checked_part(name)](self.site), log=log, env=env, can_stop=True)

    def kill_part(self, name: str) -> None:
        """End a part of the control plane at once, as a crash would; idempotent."""
        kill(self.control, checked_part(name))

    def _succeeds(self, *argv: str) -> bool:
        try:
            self.kubectl(*argv)
        except ClusterError:
            return False
        return True

    def _is_healthy(self, address: str) -> bool:
        try:
            self.control.call("curl", "--fail", "--silent", "--insecure", "--max-time", "5", address)
        except ClusterError:
            return False
        return True


def up(folder: Path, *, nodes: int = NODES, tied: bool = False) -> Kubernetes:
    """Start a cluster in `folder`, which must not exist or be empty; ClusterError with logs when it cannot.

    Tied, it dies with the thread that called this, however that ends.
    """
    programs()
    if nodes:
        image_store()
    site = plan_site(folder)
    cluster = Kubernetes(site, tied)
    try:
        write_site(site)
        _start(cluster, nodes)
    except BaseException:
        sweep(site.folder)
        _clear_groups(cluster)
        raise
    return cluster


def attach(folder: Path) -> Kubernetes:
    """The cluster that runs in `folder`; ClusterError when there is none."""
    site = read_site(folder.resolve())
    return Kubernetes(
        attached(site, folder, _CONTROL, "no Kubernetes cluster runs: `make k8s-up` starts one")
    )


def down(folder: Path) -> bool:
    """End the cluster in `folder`, also one whose `up` crashed, and remove it; whether there was one."""
    folder = folder.resolve()
    return remove(folder, read_site(folder), lambda site: _clear_groups(Kubernetes(site)))


def _clear_groups(cluster: Kubernetes) -> None:
    for name in cluster.nodes:
        groups.clear(cluster.node(name).group)


def _start(cluster: Kubernetes, nodes: int) -> None:
    site = cluster.site
    switch = open_wire(site.folder, _SWITCH, tied=cluster.tied)
    make_switch(switch, site.control_address)
    switch.call("sysctl", "--quiet", "--write", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0")
    plug_in_caller(switch, f"k8s-{site.network.rpartition('.')[2]}", site.caller_address)
    call("ip", "route", "add", f"{site.network}.0.0/16", "via", site.control_address)
    open_cell(site.folder, _CONTROL, Setup(hostname=_CONTROL), wire=switch, tied=cluster.tied)
    with step("start etcd and the API server"):
        daemons = [cluster.start_part(name) for name in _BEFORE_API]
        cluster.until(lambda: all_run(daemons) and cluster.answers(), "the API server")
    with step("start a store"):
        stored = start_store(cluster)
        cluster.until(lambda: all_run([stored]) and store_answers(cluster), "the store")
    with step("start the controller manager and the scheduler"):
        daemons += [cluster.start_part(name) for name in PARTS if name not in _BEFORE_API]
        cluster.until(
            lambda: all_run(daemons) and cluster.is_ready(), "the controller manager and the scheduler"
        )
    if nodes:
        with step(f"start {nodes} nodes"):
            cluster.until_ready(*cluster.add_nodes(nodes))
