"""A shell, or a command, beside a run on this machine: in its working copy and with its environment.

The environment is read from the kernel's record of the living process and goes nowhere but into the new one:
it may hold secrets.
"""

from __future__ import annotations

import os
import pwd
import sys
from typing import Dict, List, NamedTuple, Optional, Sequence

from gofer.core import processes
from gofer.core.numerals import parse_count
from gofer.core.programs import locate
from gofer.node import cgroups, spawn
from gofer.node.folders import private_mounts

NOT_RUNNING = 125
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from gofer.node.run_shell import main; main(sys.argv[1:])"
)
# What describes the terminal of who enters, not the one of who submitted.
_TERMINAL = ("TERM", "COLORTERM", "LINES", "COLUMNS")


class Inside(NamedTuple):
    """A process of a run: where it works and what it knows."""

    pid: int
    environment: Dict[str, str]
    folder: str


def find(run_id: str, node: Optional[int] = None) -> Optional[Inside]:
    """The oldest process of rank 0 of the run, else of its lowest rank; None when none lives here.

    With `node`, only of those that the run has on its node of that number.
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
    """Become the command, or a shell. Returns only when it cannot be run, with what a shell would say.

    Where the machine allows it the new process joins the run's cgroup, and so ends with the run.
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
        words = f"error: cannot run `{argv[0]}` there: {(error.strerror or str(error)).lower()}"
        hint = "hint: the first word is the program; a line for a shell is written `sh -c '…'`"
        sys.stderr.write(f"{words}\n{hint}\n")
        return spawn.NOT_FOUND if isinstance(error, FileNotFoundError) else spawn.CANNOT_RUN


def program(
    run_id: str, command: Sequence[str], *, terminal: bool, node: Optional[int] = None
) -> Optional[List[str]]:
    """The words that run `main` on this machine; None when no process of the run, or of its node, is here."""
    if find(run_id, node) is None:
        return None
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    how = "terminal" if terminal else "plain"
    where = "any" if node is None else str(node)
    return [sys.executable, "-I", "-S", "-c", _PROGRAM, root, run_id, where, how, *command]


def main(words: List[str]) -> None:
    """Never returns. `words` are the run's id, its node or `any`, `terminal` or `plain`, and the command."""
    run_id, where, how, *command = words
    inside = find(run_id, parse_count(where))
    if inside is None:
        sys.stderr.write(f"error: no process of {run_id} lives on this machine any more\n")
        sys.exit(NOT_RUNNING)
    sys.exit(enter(inside, command, terminal=how == "terminal"))


def _environment(pid: int) -> Dict[str, str]:
    """As it was when the process began; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = (entry.partition(b"=") for entry in file.read().split(b"\0") if b"=" in entry)
            return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    except OSError:
        return {}


def _folder(pid: int, environment: Dict[str, str]) -> str:
    """Where the command was started; where it is now, if that is gone."""
    began = environment.get("PWD", "")
    return began if os.path.isdir(began) else f"/proc/{pid}/cwd"


def _shell(environment: Dict[str, str], terminal: bool) -> List[str]:
    named = environment.get("SHELL") or pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    shell = named if os.access(named, os.X_OK) else "/bin/sh"
    return [shell, "-i"] if terminal else [shell]
