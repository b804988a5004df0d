"""A home whose PATH begins with a folder for the test's own programs and has no real program of Azure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import Home

_ASIDE = ("AZURE_", "ARM_", "IDENTITY_", "MSI_", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "SSH_CONNECTION")
_PROGRAMS = ("az", "docker", "podman", "azcopy", "conda")


@pytest.fixture
def home(home: Home, tmp_path: Path) -> Iterator[Home]:
    """The usual home, with `tmp_path / "bin"` first on the PATH and without this machine's docker."""
    kept = {name: value for name, value in home.environ.items() if not name.startswith(_ASIDE)}
    folders = [str(tmp_path / "bin")]
    for folder in kept["PATH"].split(os.pathsep):
        if not any(os.path.exists(os.path.join(folder, name)) for name in _PROGRAMS):
            folders.append(folder)
    home.environ = {**kept, "PATH": os.pathsep.join(folders), "HOME": str(tmp_path / "person")}
    yield home
