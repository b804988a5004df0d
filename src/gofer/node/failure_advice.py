"""Advice for a person whose command failed, from the last lines of its log."""

from __future__ import annotations

import os
import re
from typing import Optional, Sequence

from gofer.core.command.command_launcher import SPANNING
from gofer.core.launch import NodePlace
from gofer.node.code.working_copy import read_code
from gofer.node.packages.package_files import AUTO, find
from gofer.node.task import Task

# Open MPI's error about a node that it cannot reach is this long.
LINES = 80
_PACKAGE_LINES = 20
# Errors of ssh, Open MPI, Hydra and DeepSpeed about a node that they cannot reach.
_UNREACHED = re.compile(
    r"unable to reliably start one or more daemons|Host key verification failed"
    r"|Permission denied \(|ssh: connect to host|[Cc]ould not resolve hostname|not reachable via ssh"
    r"|plm_rsh_agent|HYDU_sock_connect"
)

# As gofer.node.packages.provide writes it.
NO_PACKAGES = re.compile(r"the packages of .+ could not be installed")

# git, setuptools-scm, GitPython and DVC in a folder without a repository.
NO_REPOSITORY = re.compile(
    r"not a git repository|setuptools[-_]scm was unable to detect version|InvalidGitRepositoryError"
    r"|you are not inside of a Git repository"
)

_MODULE = re.compile(r"No module named '?([A-Za-z_][A-Za-z0-9_]*)")
_PROGRAM = re.compile(r"(?:cannot run `|line \d+: |^sh: \d+: )(python3?|pip|torchrun|accelerate)\b[`:]")


def advise(task: Task, place: NodePlace, lines: Sequence[str], built: Optional[str]) -> Optional[str]:
    """A sentence that says what to do; None when the lines have no known error. `built`: see
    `_missing_packages`.
    """
    missing = _missing_packages(lines[-_PACKAGE_LINES:], task.code, task.workdir, built)
    launcher = task.request.command_launcher
    return missing or _unreached(launcher, place, lines) or _without_repository(task, lines[-_PACKAGE_LINES:])


def _without_repository(task: Task, lines: Sequence[str]) -> Optional[str]:
    """Advice for a command that asked git, where the code is from a repository that stayed behind."""
    is_behind = task.origin.get("commit") and not task.origin.get("git")
    if not is_behind or not any(NO_REPOSITORY.search(line) for line in lines):
        return None
    return "the run has no git repository: `gofer submit --with-git` sends a small one"


def _unreached(launcher: Optional[str], place: NodePlace, lines: Sequence[str]) -> Optional[str]:
    """Advice for a launcher that logs in to the other nodes and failed; None for any other failure."""
    others = sorted(set(place.hosts[1:]) - {place.hosts[0]})
    if launcher not in SPANNING or not others or not any(_UNREACHED.search(line) for line in lines):
        return None
    return (
        f"`{launcher}` did not reach {', '.join(others)} from {place.hosts[0]}: it logs in there by SSH, "
        f"and `ssh {others[0]} true` must work on {place.hosts[0]} without a prompt; "
        "gofer does not set up SSH between nodes"
    )


def _missing_packages(tail: Sequence[str], code: str, workdir: str, built: Optional[str]) -> Optional[str]:
    """A sentence that says what to do; None when the last lines of the log name no missing module or program.

    `built` is the file whose packages the run had. A module that is part of the code is not a package.
    """
    missing = _missing(tail, code, workdir)
    if missing is None:
        return None
    if built is not None:
        return f"`{missing}` is not among the packages of {built}: add it there"
    file = find(AUTO, os.path.relpath(workdir, code), read_code(code))
    list_name = "a requirements.txt" if file is None else file.path
    return f"`{missing}` is not installed on the node: `--packages auto` installs what {list_name} lists"


def _missing(tail: Sequence[str], code: str, workdir: str) -> Optional[str]:
    for line in reversed(tail):
        module, program = _MODULE.search(line), _PROGRAM.search(line)
        if module and not _is_in_code(module.group(1), code, workdir):
            return module.group(1)
        if program:
            return program.group(1)
    return None


def _is_in_code(module: str, code: str, workdir: str) -> bool:
    folders = (workdir, code, os.path.join(code, "src"))
    return any(os.path.exists(os.path.join(one, module + end)) for one in folders for end in ("", ".py"))
