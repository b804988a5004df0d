"""Change paths into the person's project to paths into the working copy of the run.

A run starts with variables of the shell that submitted it, and some of them name folders of the project. In
the run these variables name the same folders of the working copy, so that the run uses the code with which it
was submitted.
"""

from __future__ import annotations

import functools
import os
from typing import Dict, Mapping, Sequence, Tuple

from gofer.core.code.editable import below, find_editables, real_path
from gofer.core.node_request import CodeFields
from gofer.node.code.project_environments import UV_ENVIRONMENT, is_linked

# Variables that every program reads as a list of folders.
PATH_LISTS = (
    *("PYTHONPATH", "MYPYPATH", "PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH"),
    *("CPLUS_INCLUDE_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH", "CLASSPATH", "NODE_PATH", "PERL5LIB"),
    *("RUBYLIB", "R_LIBS", "R_LIBS_USER", "JULIA_LOAD_PATH", "LUA_PATH", "MANPATH"),
)


def lead_to_copy(
    environment: Mapping[str, str], origin: CodeFields, argv: Sequence[str], copy: str
) -> Dict[str, str]:
    """The variables of a command whose code comes from `origin` and is now in the folder `copy`.

    An entry of a path list that lies in the project, also by way of links, becomes that of the copy where the
    copy has it; one that the snapshot left out stays. Behind the person's own entries, PYTHONPATH gets the
    folders of the copy in place of editable installs of the project.
    """
    found = dict(environment)
    project = str(origin.get("folder") or "")
    if not project:
        return found
    names = {project, real_path(project)}
    linked = [str(one) for one in origin.get("environments") or ()]
    for name in PATH_LISTS:
        value = found.get(name)
        if value and _may_lead(value, tuple(names)):
            entries = [_lead(entry, names, linked, copy) for entry in value.split(os.pathsep)]
            found[name] = os.pathsep.join(entries)
    installed = find_editables(argv, found, project, [os.path.join(project, one) for one in linked])
    _import_from(found, [*installed.folders, *(origin.get("imports") or ())], copy)
    if any(is_linked(project, copy, one) for one in linked):
        found.setdefault(UV_ENVIRONMENT, copy + ".uv")
    return found


@functools.lru_cache(maxsize=64)
def _may_lead(value: str, names: Tuple[str, ...]) -> bool:
    """Whether an entry of a path list lies in the project. Cached: all rows have the same lists."""
    paths = [path for entry in value.split(os.pathsep) for path in _paths_of(entry)]
    return any(below(path, project) is not None for path in paths for project in names)


def _lead(entry: str, names: set[str], linked: Sequence[str], copy: str) -> str:
    for path in _paths_of(entry):
        for project in names:
            inside = below(path, project)
            if inside is None:
                continue
            place = os.path.normpath(os.path.join(copy, inside))
            is_environment = any(inside == one or inside.startswith(one + "/") for one in linked)
            return place if os.path.exists(place) and not is_environment else entry
    return entry


@functools.lru_cache(maxsize=256)
def _paths_of(entry: str) -> Tuple[str, ...]:
    """The folder of a path list by its own name and by that behind its links. Cached: all rows have the same
    entries.
    """
    return (os.path.normpath(entry), os.path.realpath(entry)) if os.path.isabs(entry) else ()


def _import_from(environment: Dict[str, str], folders: Sequence[str], copy: str) -> None:
    """Add these folders of the copy to PYTHONPATH, after the person's own entries."""
    places = [os.path.normpath(os.path.join(copy, inside)) for inside in folders]
    places = [one for one in places if os.path.isdir(one)]
    if places:
        before = environment.get("PYTHONPATH", "")
        entries = [*(before.split(os.pathsep) if before else ()), *places]
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(entries))
