"""Fetches packages of three kinds into folders of their own: wheels, npm packages, Debian packages.

A Debian package is unpacked, not configured. Each folder has a file `installed` with the version, written
last: without it the folder is made again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.errors import BenchError


def install_wheel(folder: Path, requirement: str, version: str, *, beside: Sequence[str] = ()) -> None:
    """A virtual environment with the package, what it needs and `beside`; nothing when it is there."""
    if _is_there(folder, version):
        return
    _begin(folder, f"installing {requirement} {version}")
    _do([sys.executable, "-m", "venv", str(folder)], folder.parent, 300)
    python = str(folder / "bin" / "python")
    wanted = [f"{requirement}=={version}", *beside]
    _do([python, "-m", "pip", "install", "--quiet", "--compile", *wanted], folder.parent, 1200)
    _end(folder, version)


def install_npm(folder: Path, package: str, version: str) -> None:
    """`folder/node_modules`; no script of any package is run. Does nothing when it is there."""
    if _is_there(folder, version):
        return
    _begin(folder, f"installing {package} {version}")
    folder.mkdir()
    words = ["npm", "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund"]
    _do([*words, f"{package}@{version}"], folder, 600)
    _end(folder, version)


def unpack_debian(folder: Path, packages: Sequence[str]) -> str:
    """The packages side by side under `folder`; the version of the first. Does nothing if they are there."""
    marker = folder / "installed"
    if not marker.exists():
        _begin(folder, f"unpacking {', '.join(packages)}")
        folder.mkdir()
        files = [_download_debian(name, folder) for name in packages]
        for file in files:
            _do(["dpkg-deb", "-x", str(file), str(folder)], folder, 60)
        _end(folder, _do(["dpkg-deb", "-f", str(files[0]), "Version"], folder, 30).strip())
    return marker.read_text(encoding="ascii").strip()


def debian_version(package: str) -> str:
    """Of an installed package."""
    return _do(["dpkg-query", "-W", "-f", "${Version}", package], Path("/"), 30)


def starts(program: Path) -> bool:
    """Whether the program finds its libraries."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, timeout=30, check=False)
        return done.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _is_there(folder: Path, version: str) -> bool:
    marker = folder / "installed"
    return marker.exists() and marker.read_text(encoding="ascii") == version


def _begin(folder: Path, words: str) -> None:
    print(f"  {words}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)


def _end(folder: Path, version: str) -> None:
    (folder / "installed").write_text(version, encoding="ascii")


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
        result = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        raise BenchError(f"`{' '.join(argv[:4])} …` ended with {done.returncode}: {result[:200]}")
    return done.stdout
