"""The project's own Python environments in a run's copy: links to where they lie.

A snapshot leaves `.venv` and its like out. Where the person's folder can be seen from the node, a link in the
copy leads to the environment, so that `.venv/bin/python` and `source .venv/bin/activate` work as they do in
the person's folder. An environment that gofer built from a list of packages replaces the link.
"""

from __future__ import annotations

import os
from typing import Any, Mapping

ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
VENV = ".venv"
# uv would install the project into the environment that the link leads to.
UV_ENVIRONMENT = "UV_PROJECT_ENVIRONMENT"


def is_environment(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, mark)) for mark in ENVIRONMENT_MARKS)


def is_linked(project: str, copy: str, name: str) -> bool:
    """Whether the environment of that name in the copy is the project's own."""
    link = os.path.join(copy, name)
    return os.path.islink(link) and os.readlink(link) == os.path.join(project, name)


def link_environments(origin: Mapping[str, Any], copy: str) -> None:
    """Link the environments that `origin` names, a gofer.model.run.CodeOrigin, into the copy.

    One that is not on this machine, or has no Python that can be started, is left out, and so is one whose
    name the copy has already. Idempotent. OSError when the copy cannot be written.
    """
    project = str(origin.get("folder") or "")
    for name in origin.get("environments") or () if project else ():
        real, link = os.path.join(project, name), os.path.join(copy, name)
        if os.path.normpath(name) != name or name.startswith(("/", "..")):
            continue  # no name that gofer gives
        if not is_environment(real) or not os.access(os.path.join(real, "bin", "python"), os.X_OK):
            continue
        if not os.path.lexists(link) and os.path.isdir(os.path.dirname(link)):
            try:
                os.symlink(real, link)
            except FileExistsError:
                pass  # another agent shares the copy and was faster


def show_venv(folder: str, env: str) -> str:
    """Show the environment `env` as `.venv` of a folder of the copy; the path by which the run is to name it.

    That is `env` itself where the code has a `.venv` of its own that is no link. Idempotent. OSError when the
    folder cannot be written.
    """
    link = os.path.join(folder, VENV)
    if os.path.lexists(link) and not os.path.islink(link):
        return env
    if not os.path.islink(link) or os.readlink(link) != env:
        fresh = f"{link}.{os.getpid()}.tmp"
        os.symlink(env, fresh)
        os.replace(fresh, link)
    return link
