"""Nodes that are only objects: kwok says that they are ready and that their pods run.

Their taint keeps pods away that do not tolerate `kwok.x-k8s.io/node`; the label `type: kwok` chooses them.
"""

from __future__ import annotations

import json
from pathlib import Path

from clusters.k8s.cache import cache_folder, make_once
from clusters.k8s.cluster import Kubernetes
from clusters.k8s.go_module import GoModule
from clusters.k8s.processes import runs

GPUS = 8
TAINT = "kwok.x-k8s.io/node"
_SOURCES = Path(__file__).resolve().with_name("kwok")
_MODULE = "sigs.k8s.io/kwok"
# When nodes become ready and pods run and end; kwok knows none of it by itself.
_STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/*heartbeat*.yaml",
    "pod/fast/pod-*.yaml",
)
_TIMEOUT_S = 300.0


def kwok() -> Path:
    """The folder of kwok and its stages. The first call on a machine takes some minutes."""
    return make_once(cache_folder() / f"kwok-{GoModule(_SOURCES).digest()}", _build)


def add_simulated_nodes(k8s: Kubernetes, count: int) -> list[str]:
    """Add nodes with eight GPUs each, and wait until they are ready; the names of all that there are."""
    if not runs(k8s.control, "kwok"):
        _start(k8s)
    first = len(simulated_nodes(k8s, ready=False))
    nodes = [_node(f"simulated-{number:04d}") for number in range(first, first + count)]
    document = {"apiVersion": "v1", "kind": "List", "items": nodes}
    k8s.kubectl("create", "-f", "-", text=json.dumps(document), timeout_s=_TIMEOUT_S)
    total = first + count
    k8s.until(lambda: len(simulated_nodes(k8s)) == total, f"{total} simulated nodes", timeout_s=_TIMEOUT_S)
    return simulated_nodes(k8s)


def simulated_nodes(k8s: Kubernetes, *, ready: bool = True) -> list[str]:
    """The names of the simulated nodes; with `ready`, of those that are ready alone."""
    condition = '{.status.conditions[?(@.type=="Ready")].status}'
    lines = "{range .items[*]}{.metadata.name} " + condition + '{"\\n"}{end}'
    listed = k8s.kubectl("get", "nodes", "--selector=type=kwok", "-o", f"jsonpath={lines}")
    found = [line.split() for line in listed.splitlines()]
    return [words[0] for words in found if words[1:] == ["True"] or not ready]


def _start(k8s: Kubernetes) -> None:
    argv = [
        str(kwok() / "kwok"),
        f"--kubeconfig={k8s.site.kubeconfig}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={TAINT}=fake",
        "--server-address=127.0.0.1:10247",
        f"--config={kwok() / 'stages.yaml'}",
        "--node-lease-duration-seconds=40",
    ]
    k8s.control.start(argv, log=k8s.folder / "logs" / "kwok.log", can_stop=True)


def _node(name: str) -> dict[str, object]:
    resources = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    labels = {
        "type": "kwok",
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.count": str(GPUS),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {TAINT: "fake"}, "labels": labels},
        "spec": {"taints": [{"key": TAINT, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": resources, "capacity": resources},
    }


def _build(folder: Path) -> None:
    folder.mkdir()
    module = GoModule(_SOURCES)
    module.build(f"{_MODULE}/cmd/kwok", folder / "kwok", "kwok")
    source = module.source(_MODULE) / "kustomize" / "stage"
    stages = [path.read_text() for pattern in _STAGES for path in sorted(source.glob(pattern))]
    (folder / "stages.yaml").write_text("---\n".join(stages))
