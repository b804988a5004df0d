"""A node of the cluster: a machine with containerd, kubelet, kube-proxy and GPUs that nothing computes on.

Its network outlives it, as the cable of a machine without power does.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from clusters import groups
from clusters.cells import Cell, Daemon, Setup, open_cell, open_wire
from clusters.k8s.containerd import copy_store, start_containerd
from clusters.k8s.images import image_store
from clusters.k8s.node_files import KERNEL_SETTINGS, Node
from clusters.k8s.processes import kill, runs
from clusters.k8s.programs import programs
from clusters.k8s.site import write_node_certificates
from clusters.network import plug

GPUS = 4
GPU_TYPES = ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3")
# Programs have these folders built in; the node's own are shown there.
_FIXED = {"/var/lib/kubelet": "kubelet", "/var/lib/cni": "cni", "/var/log": "log"}


def make_node(node: Node, switch: Cell, *, tied: bool) -> None:
    """The files of a node, and its network. Nothing of it runs yet."""
    for name in _FIXED.values():
        (node.folder / name).mkdir(parents=True)
    for name, text in node.texts().items():
        (node.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (node.folder / name).write_text(text)
    write_node_certificates(node.site, node.name, node.address)
    _make_gpus(node.folder / "dev")
    copy_store(image_store(), node.folder / "containerd")
    wire = open_wire(node.site.folder, wire_name(node), tied=tied)
    plug(switch, wire, node.address)
    wire.call("ip", "route", "add", "default", "via", node.site.control_address)
    wire.call("sysctl", "--quiet", "--write", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0")
    switch.call("ip", "route", "replace", node.pods, "via", node.address)


def wire_name(node: Node) -> str:
    return f"{node.name}-wire"


def start_node(node: Node, wire: Cell, *, tied: bool) -> list[Daemon]:
    """Switch the node on. It is not yet ready when this returns."""
    # The kubelet spends seconds on each group that a container of before has left.
    groups.clear(node.group)
    groups.make(node.group)
    binds = {place: node.folder / name for place, name in _FIXED.items()}
    binds |= {f"/proc/sys/{name}": node.folder / "proc" / name for name in KERNEL_SETTINGS}
    for place in _FIXED:
        Path(place).mkdir(parents=True, exist_ok=True)
    setup = Setup(hostname=node.name, binds=binds, empty=["/run"])
    cell = open_cell(node.site.folder, node.name, setup, wire=wire, tied=tied)
    cell.call("mount", "--make-rshared", "/")
    start_containerd(cell, node.folder / "containerd.toml", node.folder / "log" / "containerd.log")
    node.mark()
    return [start_daemon(node, cell, name) for name in DAEMONS]


def start_daemon(node: Node, cell: Cell, name: str) -> Daemon:
    """Start one of DAEMONS in the running node."""
    env = {"PATH": f"{programs()}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    return cell.start(DAEMONS[name](node), log=node.folder / "log" / f"{name}.log", env=env, can_stop=True)


def daemon_runs(node: Node, cell: Cell, name: str) -> bool:
    return runs(cell, DAEMONS[name](node)[0])


def kill_daemon(node: Node, cell: Cell, name: str) -> None:
    """End one of DAEMONS at once, as a crash would; idempotent. Containers go on."""
    node.mark()
    kill(cell, DAEMONS[name](node)[0])


def _kubelet(node: Node) -> list[str]:
    kind = GPU_TYPES[(node.number - 1) % len(GPU_TYPES)]
    return [
        "kubelet",
        f"--config={node.folder / 'kubelet.json'}",
        f"--kubeconfig={node.kubeconfig}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        # What NVIDIA's own discovery writes.
        f"--node-labels=nvidia.com/gpu.product={kind},nvidia.com/gpu.count={GPUS}",
    ]


def _kube_proxy(node: Node) -> list[str]:
    return ["kube-proxy", f"--config={node.folder / 'kube-proxy.json'}", f"--hostname-override={node.name}"]


def _gpus(node: Node) -> list[str]:
    return ["k8s", "gpus", f"--folder={node.folder / 'dev'}", f"--count={GPUS}"]


DAEMONS = {"kubelet": _kubelet, "kube-proxy": _kube_proxy, "gpus": _gpus}


def _make_gpus(folder: Path) -> None:
    folder.mkdir()
    for at in range(GPUS):
        # NVIDIA's own numbers, which are of no other use.
        os.mknod(folder / f"nvidia{at}", 0o666 | stat.S_IFCHR, os.makedev(195, at))
