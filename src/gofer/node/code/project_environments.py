"""Link the project's own Python environments into the working copy of a run.

A snapshot leaves out `.venv` and similar folders. If the node can see the person's folder, a link in the
working copy points to the environment, so that `.venv/bin/python` and `source .venv/bin/activate` work as in
the person's folder. An environment that gofer built from a list of packages replaces the link.
"""

from __future__ import annotations

import os

from gofer.core.node_request import CodeFields

ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
VENV = ".venv"
# Set to a folder of the run: otherwise uv would install the project into the environment behind the link.
UV_ENVIRONMENT = "UV_PROJECT_ENVIRONMENT"


def is_environment(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, mark)) for mark in ENVIRONMENT_MARKS)


def is_linked(project: str, copy: str, name: str) -> bool:
    """Whether `name` in the copy is a link to the project's own environment."""
    link = os.path.join(copy, name)
    return os.path.islink(link) and os.readlink(link) == os.path.join(project, name)


def link_environments(origin: CodeFields, copy: str) -> None:
    """Link the environments of `origin` into the copy. Idempotent.

    Environments that are not on this machine, have no executable Python, or whose name exists in the copy are
    left out. OSError when the copy cannot be written.
    """
    project = str(origin.get("folder") or "")
    for name in origin.get("environments") or () if project else ():
        real, link = os.path.join(project, name), os.path.join(copy, name)
        if os.path.normpath(name) != name or name.startswith(("/", "..")):
            continue  # gofer never writes such a name
        if not is_environment(real) or not os.access(os.path.join(real, "bin", "python"), os.X_OK):
            continue
        if not os.path.lexists(link) and os.path.isdir(os.path.dirname(link)):
            try:
                os.symlink(real, link)
            except FileExistsError:
                pass  # another agent that shares the copy has just made the link


def show_venv(folder: str, env: str) -> str:
    """Make `.venv` in a folder of the copy a link to the environment `env`; the path that the run should use.

    If the code has a `.venv` that is not a link, that path is `env` itself. Idempotent. OSError when the
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
