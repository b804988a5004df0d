"""Run a shell or a command beside a run on this machine: in its working copy and with its environment.

The environment may hold secrets. It is read from /proc of a live process of the run, and given only to the
new process.
"""

from __future__ import annotations

import os
import pwd
import sys
from typing import Dict, List, NamedTuple, Optional, Sequence

from gofer.core import processes
from gofer.core.command.programs import locate
from gofer.core.json_text import parse_count
from gofer.node import cgroups, spawn
from gofer.node.folders import private_mounts

NOT_RUNNING = 125
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from gofer.node.run_shell import {0}; {0}(sys.argv[1:])"
)
# Variables of the terminal of the person who opens the shell. Those of the submitting terminal are dropped.
_TERMINAL = ("TERM", "COLORTERM", "LINES", "COLUMNS")


class Inside(NamedTuple):
    """A process of a run, with its environment and working folder."""

    pid: int
    environment: Dict[str, str]
    folder: str


def find(run_id: str, node: Optional[int] = None) -> Optional[Inside]:
    """The oldest process of the run's lowest rank on this machine; None when the run has no process here.

    With `node`, only processes of that node of the run.
    """
    table = processes.all_processes()
    living = [pid for pid, one in table.items() if one.state not in "ZX"]
    best = None
    for pid in processes.having_environment(f"GOFER_RUN_ID={run_id}", living):
        environment = _environment(pid)
        # Runs that a gofer older than GOFER_RANK started have RANK and NODE_RANK alone.
        rank = parse_count(environment.get("GOFER_RANK", environment.get("RANK", "")))
        number = parse_count(environment.get("GOFER_NODE_RANK", environment.get("NODE_RANK", "")))
        if rank is not None and node in (None, number):
            key = (rank, table[pid].start, pid)
            best = min(best, (key, environment)) if best else (key, environment)
    if best is None:
        return None
    (_, _, pid), environment = best
    return Inside(pid, environment, _folder(pid, environment))


def enter(inside: Inside, command: List[str], *, terminal: bool) -> int:
    """Replace this process by the command, or by a shell. Returns only when that fails, with the exit status
    of a shell.

    If the machine allows it, the new process joins the run's cgroup, and so ends with the run.
    """
    environment = {name: value for name, value in inside.environment.items() if name not in _TERMINAL}
    environment.update((name, os.environ[name]) for name in _TERMINAL if name in os.environ)
    argv = command or _shell(environment, terminal)
    private_mounts.join(inside.pid)
    os.chdir(inside.folder)
    group = cgroups.group_of(inside.pid, cgroups.AGENT_PREFIX)
    if group is not None:
        cgroups.join(group)
    program = locate(argv[0], environment.get("PATH", os.defpath))
    try:
        if program is None:
            raise FileNotFoundError(2, os.strerror(2))
        os.execve(program, argv, environment)
    except OSError as error:
        words = f"error: cannot run `{argv[0]}` in the run: {(error.strerror or str(error)).lower()}"
        hint = "hint: the first word must be a program; write a shell command as `sh -c '…'`"
        sys.stderr.write(f"{words}\n{hint}\n")
        return spawn.NOT_FOUND if isinstance(error, FileNotFoundError) else spawn.CANNOT_RUN


def program(
    run_id: str, command: Sequence[str], *, terminal: bool, node: Optional[int] = None
) -> Optional[List[str]]:
    """The command line that runs `main` on this machine; None when the run, or its node, has no process
    here.
    """
    if find(run_id, node) is None:
        return None
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    entry = _PROGRAM.format("main")
    return [sys.executable, "-I", "-S", "-c", entry, root, *_arguments(run_id, command, terminal, node)]


def program_in_job(
    python: str, root: str, run_id: str, command: Sequence[str], *, terminal: bool, node: int
) -> List[str]:
    """The command line that runs `main_in_job` on a node of the run's job, with the agent in the folder
    `root`.
    """
    entry = _PROGRAM.format("main_in_job")
    return [python, "-I", "-S", "-c", entry, root, *_arguments(run_id, command, terminal, node)]


def _arguments(run_id: str, command: Sequence[str], terminal: bool, node: Optional[int]) -> List[str]:
    """The words that `main` and `main_in_job` read."""
    where = "any" if node is None else str(node)
    return [run_id, where, "terminal" if terminal else "plain", *command]


def main(words: List[str]) -> None:
    """Enter the run; never returns. `words` are the run's id, its node or `any`, `terminal` or `plain`, and
    the command.
    """
    run_id, where, how, *command = words
    inside = find(run_id, parse_count(where))
    if inside is None:
        sys.stderr.write(f"error: {run_id} has no process on this machine now\n")
        sys.exit(NOT_RUNNING)
    sys.exit(enter(inside, command, terminal=how == "terminal"))


def main_in_job(words: List[str]) -> None:
    """As `main`, on a node that the run's job holds.

    When the run has no process on the node, the shell has the environment and the folder of this process.
    """
    run_id, where, how, *command = words
    inside = find(run_id, parse_count(where))
    if inside is None:
        sys.stderr.write(f"{run_id} has no process on this node now: the shell has the job's environment\n")
        inside = Inside(os.getpid(), dict(os.environ), os.getcwd())
    sys.exit(enter(inside, command, terminal=how == "terminal"))


def _environment(pid: int) -> Dict[str, str]:
    """The environment with which a process was started; empty when the process is gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = (entry.partition(b"=") for entry in file.read().split(b"\0") if b"=" in entry)
            return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    except OSError:
        return {}


def _folder(pid: int, environment: Dict[str, str]) -> str:
    """The folder in which the process was started; if that folder is gone, its present folder."""
    began = environment.get("PWD", "")
    return began if os.path.isdir(began) else f"/proc/{pid}/cwd"


def _shell(environment: Dict[str, str], terminal: bool) -> List[str]:
    named = environment.get("SHELL") or _login_shell()
    shell = named if os.access(named, os.X_OK) else "/bin/sh"
    return [shell, "-i"] if terminal else [shell]


def _login_shell() -> str:
    """The shell of this user; /bin/sh for a user without an entry in /etc/passwd, as in a container."""
    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:
        return "/bin/sh"
