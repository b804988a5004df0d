"""Find the file of a project that lists its packages, and the tool that builds them. Pure: the caller reads
files.
"""

from __future__ import annotations

import posixpath
from typing import Callable, List, NamedTuple, Optional

from gofer.node.packages import pyproject

NONE, AUTO, UV, PIP, CONDA = "none", "auto", "uv", "pip", "conda"
LOCK, REQUIREMENTS, PYPROJECT = "uv.lock", "requirements.txt", "pyproject.toml"
_CONDA_FILES = ("environment.yml", "environment.yaml")
_FILES = {
    AUTO: (LOCK, REQUIREMENTS, PYPROJECT, *_CONDA_FILES),
    UV: (LOCK, REQUIREMENTS, PYPROJECT),
    PIP: (REQUIREMENTS, PYPROJECT),
    CONDA: _CONDA_FILES,
}

# The text of a file of the code by its relative path; None when there is no such file.
Read = Callable[[str], Optional[str]]


class PackageFile(NamedTuple):
    """A file that lists packages: its path in the code, and the tool that builds them."""

    path: str
    tool: str

    @property
    def folder(self) -> str:
        """The folder of the code that holds the file; empty for the code folder itself."""
        return posixpath.dirname(self.path)

    def __str__(self) -> str:
        return f"{self.path} ({self.tool})"


def file_names(packages: str) -> List[str]:
    """The names of the files that are considered, the preferred one first."""
    return list(_FILES.get(packages, ()))


def find(packages: str, workdir: str, read: Read) -> Optional[PackageFile]:
    """The file for a command that starts in `workdir` of the code; None when there is none.

    The name of the file takes precedence over its folder: a `uv.lock` at the top of a workspace is preferred
    to the `pyproject.toml` of a member.
    """
    for name in file_names(packages):
        for folder in _upwards(workdir):
            path = posixpath.join(folder, name)
            text = read(path)
            if text is not None and _lists_packages(name, text):
                return PackageFile(path, _tool(packages, name))
    return None


def _upwards(workdir: str) -> List[str]:
    """The folder of the command and the folders above it, up to the code folder."""
    folder = posixpath.normpath(workdir or ".")
    folders = []
    while folder not in (".", "", "/"):
        folders.append(folder)
        folder = posixpath.dirname(folder)
    return [*folders, ""]


def _lists_packages(name: str, text: str) -> bool:
    """Whether the file lists packages. A pyproject.toml may hold only settings of other tools."""
    return name != PYPROJECT or pyproject.parse(text).dependencies is not None


def _tool(packages: str, name: str) -> str:
    if packages != AUTO:
        return packages
    return {LOCK: UV, **dict.fromkeys(_CONDA_FILES, CONDA)}.get(name, PIP)
