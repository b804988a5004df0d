"""The images of the cluster, made without pulling: `pause`, which every pod needs, and a Debian with Python.

Nodes get them as `image_store` has them: in the folder of a containerd that has imported them once.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from clusters.cells import Setup, open_cell, sweep
from clusters.errors import ClusterError, with_logs
from clusters.k8s.cache import cache_folder, make_once
from clusters.k8s.containerd import containerd_config, start_containerd
from clusters.k8s.programs import programs
from clusters.k8s.steps import step

PAUSE = "localhost/pause:1"
# Names the image that pods of tests use. It has no gofer in it.
PYTHON = "localhost/python:3"
# The same Debian without Python.
PLAIN = "localhost/plain:1"
_PACKAGES = "python3,python-is-python3,ca-certificates,procps"
_NOT_NEEDED = ("doc", "man", "locale")
# Without other repositories, whose keys the image does not have.
_SOURCES = ("sources.list", "sources.list.d/debian.sources", "sources.list.d/ubuntu.sources")
_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OF_PYTHON = re.compile(r"usr/(bin/(python|pydoc|py3)|(lib|share)/python3)")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_DEBIAN_TIMEOUT_S = 900.0


def image_store() -> Path:
    """The folder of a containerd that has the images and does not run. The first call takes a minute."""
    known = hashlib.sha256((programs() / "pause").read_bytes())
    known.update(f"{_debian_name()} {PAUSE} {PYTHON} {PLAIN}".encode())
    return make_once(cache_folder() / f"images-{known.hexdigest()[:12]}", _make_store)


def _make_store(root: Path) -> None:
    debian = _debian()
    with (
        step("import the images of the cluster"),
        tempfile.TemporaryDirectory(prefix="gofer-k8s-") as name,
    ):
        folder = Path(name)
        archives = [folder / "pause.tar", folder / "python.tar", folder / "plain.tar"]
        _write_pause(archives[0], folder / "layer.tar")
        _write_archive(archives[1], PYTHON, debian, {"Cmd": ["/usr/bin/python3"]})
        _write_without_python(folder / "plain-layer.tar", debian)
        _write_archive(archives[2], PLAIN, folder / "plain-layer.tar", {"Cmd": ["/bin/sh"]})
        try:
            _import(folder, root, archives)
        finally:
            sweep(folder)


def _import(folder: Path, root: Path, archives: list[Path]) -> None:
    config = folder / "containerd.toml"
    config.write_text(containerd_config(root, PAUSE, folder))
    cell = open_cell(folder, "store", Setup(empty=["/run"]), tied=True)
    daemon = start_containerd(cell, config, folder / "containerd.log")
    for archive in archives:
        cell.call("ctr", "--namespace=k8s.io", "images", "import", str(archive))
    cell.call("pkill", "--signal=TERM", "--exact", "containerd")
    daemon.child.wait(timeout=60)


def _debian() -> Path:
    """The files of a Debian with Python, in a tar file."""
    return make_once(cache_folder() / _debian_name(), _bootstrap)


def _debian_name() -> str:
    return f"debian-{hashlib.sha256(_PACKAGES.encode()).hexdigest()[:12]}.tar"


def _bootstrap(path: Path) -> None:
    argv = ["mmdebstrap", "--variant=minbase", "--mode=root", "--format=tar", f"--include={_PACKAGES}"]
    argv += [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _NOT_NEEDED]
    sources = [f"/etc/apt/{name}" for name in _SOURCES if Path("/etc/apt", name).exists()]
    log = path.with_suffix(".log")
    with step("make an image from Debian packages"), open(log, "wb") as output:
        argv += [_release(), str(path), *sources]
        status = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=_DEBIAN_TIMEOUT_S,
            check=False,
        ).returncode
        if status:
            raise with_logs(f"`mmdebstrap` exited {status}", log)


def _release() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        name, _, value = line.partition("=")
        if name == "VERSION_CODENAME":
            return value.strip('"')
    raise ClusterError("/etc/os-release names no release of Debian")


def _write_pause(path: Path, layer: Path) -> None:
    with tarfile.open(layer, "w") as tar:
        _add(tar, "pause", (programs() / "pause").read_bytes(), mode=0o755)
    _write_archive(path, PAUSE, layer, {"Entrypoint": ["/pause"]})


def _write_without_python(layer: Path, debian: Path) -> None:
    with tarfile.open(debian) as source, tarfile.open(layer, "w") as tar:
        for member in source:
            if not _OF_PYTHON.match(member.name.removeprefix("./")):
                tar.addfile(member, source.extractfile(member) if member.isreg() else None)


def _write_archive(path: Path, name: str, layer: Path, settings: Mapping[str, object]) -> None:
    """An archive as `docker save` writes it, of an image with one layer."""
    with open(layer, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    config = {
        "architecture": _ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {"Env": [f"PATH={_SEARCH_PATH}"], **settings},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    encoded = json.dumps(config).encode()
    mark = hashlib.sha256(encoded).hexdigest()
    manifest = [{"Config": f"{mark}.json", "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        _add(tar, f"{mark}.json", encoded)
        _add(tar, "manifest.json", json.dumps(manifest).encode())
        tar.add(layer, f"{digest}/layer.tar")


def _add(tar: tarfile.TarFile, name: str, data: bytes, *, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))
