"""The programs of the cluster, built from Go modules: one for all parts of Kubernetes and etcd, and `pause`.

The modules and their checksums are those of programs/go.mod and programs/go.sum.
"""

from __future__ import annotations

from pathlib import Path

from clusters.k8s.cache import cache_folder, make_once
from clusters.k8s.go_module import GoModule

APPLETS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)
_SOURCES = Path(__file__).resolve().with_name("programs")
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


def programs() -> Path:
    """The folder of the programs. The first call on a machine takes over ten minutes of processor time."""
    return make_once(cache_folder() / f"programs-{_module().digest()}", _build)


def version() -> str:
    """The version of Kubernetes, such as 1.34.10."""
    return GoModule(_SOURCES).version("k8s.io/kubernetes")


def _module() -> GoModule:
    """Without a version, the server calls itself v0.0.0-master, and clients read the version."""
    major, minor, _ = version().split(".")
    facts = {"gitVersion": f"v{version()}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    words = [f"-X {package}.{name}={value}" for package in _VERSION_PACKAGES for name, value in facts.items()]
    return GoModule(_SOURCES, " ".join(["-s", "-w", *words]))


def _build(folder: Path) -> None:
    folder.mkdir()
    module = _module()
    module.build(".", folder / "k8s", f"Kubernetes {version()}")
    module.build("./pause", folder / "pause", "pause")
    for name in APPLETS:
        (folder / name).symlink_to("k8s")
