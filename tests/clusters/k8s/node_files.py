"""The files of a node: the configuration of kubelet, kube-proxy and of the network of its pods."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clusters.k8s.containerd import containerd_config
from clusters.k8s.images import PAUSE
from clusters.k8s.site import Site

KUBELET_PORT = 10250
# What the kubelet sets on the machine when it starts. A node sees files in their place.
KERNEL_SETTINGS: Mapping[str, str] = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
# A node evicts its pods when less memory than this has been available for a while. A hard limit would be
# taken off the memory that pods can ask for, and a limit this high leaves none.
_SHORT = {
    "evictionSoft": {"memory.available": "99.9%"},
    "evictionSoftGracePeriod": {"memory.available": "1s"},
    "evictionMaxPodGracePeriod": 2,
}
_CNI_VERSION = "0.4.0"


@dataclass(frozen=True)
class Node:
    """One node. Its number is from 1 to 200, and part of its addresses."""

    site: Site
    number: int

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def folder(self) -> Path:
        return self.site.folder / "nodes" / self.name

    @property
    def address(self) -> str:
        return f"{self.site.network}.0.{10 + self.number}"

    @property
    def pods(self) -> str:
        return f"{self.site.network}.{self.number}.0/24"

    @property
    def group(self) -> str:
        """The control group of its pods: all clusters of this machine share the hierarchies."""
        return f"gofer-k8s-{self.site.network}-{self.name}"

    @property
    def kubeconfig(self) -> Path:
        return self.site.certificates / f"{self.name}.conf"

    def mark(self) -> None:
        """From now on, only what the node says later counts."""
        (self.folder / "since").touch()

    def has_said(self, heartbeat: str) -> bool:
        """Whether a heartbeat is from after the last mark. Heartbeats have whole seconds."""
        since = (self.folder / "since").stat().st_mtime
        return datetime.datetime.fromisoformat(heartbeat).timestamp() > int(since)

    def set_memory(self, *, is_short: bool) -> bool:
        """Choose what a kubelet that starts from now on finds; whether this is a change."""
        path = self.folder / "kubelet.json"
        before = path.read_text()
        path.write_text(json.dumps({**_kubelet(self), **(_SHORT if is_short else {})}, indent=1))
        return before != path.read_text()

    def texts(self) -> dict[str, str]:
        """Its files by name."""
        return {
            "containerd.toml": containerd_config(self.folder / "containerd", PAUSE, self.folder / "cni.d"),
            "kubelet.json": json.dumps(_kubelet(self), indent=1),
            "kube-proxy.json": json.dumps(_kube_proxy(self), indent=1),
            "cni.d/pods.conflist": json.dumps(_pod_network(self), indent=1),
            # Pods get the resolver of this machine when the file is empty, and wait for it in vain.
            "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
            **{f"proc/{name}": value for name, value in KERNEL_SETTINGS.items()},
        }


def _kubelet(node: Node) -> dict[str, object]:
    certificates = node.site.certificates
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "port": KUBELET_PORT,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(node.site.authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{certificates}/{node.name}.crt",
        "tlsPrivateKeyFile": f"{certificates}/{node.name}.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.group}",
        "failSwapOn": False,
        "failCgroupV1": False,
        "oomScoreAdj": 0,
        "maxOpenFiles": 20000,
        "makeIPTablesUtilChains": False,
        "resolvConf": str(node.folder / "resolv.conf"),
        "clusterDomain": "cluster.local",
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 8,
        "syncFrequency": "10s",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1Gi",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1Gi",
        },
        "evictionPressureTransitionPeriod": "2s",
        "systemReserved": {"memory": "256Mi"},
        "serializeImagePulls": False,
    }


def _kube_proxy(node: Node) -> dict[str, object]:
    # The machine's settings of connection tracking stay as they are.
    kept = {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "bindAddress": node.address,
        "healthzBindAddress": "",
        "metricsBindAddress": "127.0.0.1:10249",
        "clientConnection": {"kubeconfig": f"{node.site.certificates}/kube-proxy.conf"},
        "conntrack": kept,
    }


def _pod_network(node: Node) -> dict[str, object]:
    addresses = {
        "type": "host-local",
        "dataDir": str(node.folder / "cni" / "networks"),
        "ranges": [[{"subnet": node.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": _CNI_VERSION, "name": "pods", "plugins": [bridge, ports]}
