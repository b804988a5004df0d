"""NVIDIA's device plugin, by which a cluster knows the GPUs of its nodes. Azure installs the driver alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gofer.transport.kubernetes.client import KubeApiError

if TYPE_CHECKING:
    from gofer.transport.kubernetes.client import KubeClient

_NAME = "gofer-nvidia-device-plugin"
_IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.17.4"
_PATH = "/apis/apps/v1/namespaces/kube-system/daemonsets"
# The label of the pods of the device plug-in; its value is the name of the pool.
POOL_LABEL = "gofer/pool"
_LABELS = {"app.kubernetes.io/managed-by": "gofer", "app.kubernetes.io/name": _NAME}


def install_device_plugin(client: KubeClient, pool: str) -> bool:
    """Start NVIDIA's device plugin on the nodes of the pool; False when gofer did so before. Idempotent."""
    try:
        client.create(_PATH, daemon_set(pool))
    except KubeApiError as error:
        if error.status == 409:
            return False
        raise
    return True


def daemon_set(pool: str) -> dict[str, Any]:
    """The object. It runs on the nodes of one pool alone, whatever taints they have."""
    container = {
        "name": "plugin",
        "image": _IMAGE,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "device-plugin", "mountPath": "/var/lib/kubelet/device-plugins"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": f"{_NAME}-{pool}", "labels": _LABELS},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": _NAME, POOL_LABEL: pool}},
            "template": {
                "metadata": {"labels": {**_LABELS, POOL_LABEL: pool}},
                "spec": {
                    "nodeSelector": {"kubernetes.azure.com/agentpool": pool},
                    "priorityClassName": "system-node-critical",
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [container],
                    "volumes": [
                        {"name": "device-plugin", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
                    ],
                },
            },
        },
    }
