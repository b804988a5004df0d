"""Advice for a person whose command failed, from the last lines of its log."""

from __future__ import annotations

import re
from typing import Optional, Sequence

from gofer.core.command_launcher import SPANNING
from gofer.core.launch import NodePlace
from gofer.node.packages.advice import missing_packages
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

# git, setuptools-scm, GitPython and DVC in a folder without a repository.
_NO_REPOSITORY = re.compile(
    r"not a git repository|setuptools[-_]scm was unable to detect version|InvalidGitRepositoryError"
    r"|you are not inside of a Git repository"
)


def advise(task: Task, place: NodePlace, lines: Sequence[str], built: Optional[str]) -> Optional[str]:
    """A sentence that says what to do; None when the lines have no known error. `built`: see
    `missing_packages`.
    """
    missing = missing_packages(lines[-_PACKAGE_LINES:], task.code, task.workdir, built)
    launcher = task.request.get("command_launcher")
    return missing or _unreached(launcher, place, lines) or _without_repository(task, lines[-_PACKAGE_LINES:])


def _without_repository(task: Task, lines: Sequence[str]) -> Optional[str]:
    """Advice for a command that asked git, where the code is from a repository that stayed behind."""
    is_behind = task.origin.get("commit") and not task.origin.get("git")
    if not is_behind or not any(_NO_REPOSITORY.search(line) for line in lines):
        return None
    return "the git repository stayed behind: `gofer submit --with-git` sends a small one along"


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
