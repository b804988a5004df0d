"""Write metadata for a project that a run imports from its working copy without an installation.

Many projects read their own version from importlib.metadata when they are imported, and find plugins by entry
points.
"""

from __future__ import annotations

import os
import re
from typing import Dict, List, Mapping, Optional

from gofer.core import files, private_folder
from gofer.node.packages.pyproject import Project

_UNKNOWN_VERSION = "0"
# gofer sets this for code under git. Tools that derive the version from git use it too.
_GIT_VERSION = "SETUPTOOLS_SCM_PRETEND_VERSION"


def write_metadata(folder: str, project: Project, environment: Mapping[str, str]) -> Optional[str]:
    """Write a `dist-info` of the project into `folder`, which must then be on PYTHONPATH. Returns `folder`,
    or None for a project without a name.

    Idempotent. OSError when the folder cannot be written.
    """
    name = re.sub(r"[^A-Za-z0-9.]+", "_", project.name or "").strip("_.")
    if not name:
        return None
    version = project.version or environment.get(_GIT_VERSION) or _UNKNOWN_VERSION
    place = os.path.join(folder, f"{name}-{re.sub(r'[^A-Za-z0-9.+!]+', '_', version)}.dist-info")
    private_folder.make_missing(place)
    _write(place, "METADATA", _metadata(project, version))
    _write(place, "entry_points.txt", _entry_points(project.entry_points))
    return folder


def _metadata(project: Project, version: str) -> List[str]:
    required = [f"Requires-Dist: {one}" for one in project.dependencies or []]
    return ["Metadata-Version: 2.1", f"Name: {project.name}", f"Version: {version}", *required]


def _entry_points(groups: Mapping[str, Dict[str, str]]) -> List[str]:
    lines: List[str] = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    return lines


def _write(place: str, name: str, lines: List[str]) -> None:
    text = "".join(f"{' '.join(line.split())}\n" for line in lines)
    files.write_whole(os.path.join(place, name), text.encode("utf-8"))
