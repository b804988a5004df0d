"""Handle commands that are launchers themselves: gofer does not start them once per rank.

A shell script can do anything. So where one contains the name of a launcher and would be started several
times, gofer only warns, and never changes how often the script is started.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import msgspec

from gofer.core.command.command_launcher import (
    ACCELERATE,
    DEEPSPEED_NO_SSH,
    FABRIC,
    detect,
    refusal,
    skip_wrappers,
)
from gofer.errors import CheckFailed
from gofer.ops.messages import Message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gofer.model.job import Job
    from gofer.model.layout import Layout
    from gofer.ops.session import Session


_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_MOST_BYTES = 1 << 16
_COMMAND_OPTION = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*")
_SHEBANG = re.compile(r"#!.*\b(?:sh|bash|dash|zsh|ksh)\b")
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
# The name of a launcher at the start of a word, or after a path.
_LAUNCHER = re.compile(
    r"(?:^|(?<=[\s;&|(\"'`/]))"
    r"(torchrun|mpirun|mpiexec|horovodrun|deepspeed|srun|accelerate\s+launch|(?:fabric|lightning)\s+run"
    r"|python[0-9.]*\s[^\n;&|]*-m\s*torch\.distributed\.(?:run|launch))(?=[\s\"'\\]|$)",
    re.MULTILINE,
)


def recognise(job: Job) -> Job:
    """The job, with one process per node or one in all if its command is a launcher.

    A job with an explicit number of processes per node (`--procs`) is not changed.
    """
    launcher = None if job.resources.procs is not None else detect(job.command)
    if launcher is None:
        return job
    return msgspec.structs.replace(job, command_launcher=launcher.name, multi_process=False, launcher="spawn")


def check(session: Session, job: Job, layout: Layout, *, one_machine: bool) -> None:
    """Tell the person how often the launcher starts; CheckFailed when it cannot run on this number of nodes.

    `one_machine`: all nodes of the target are this machine.
    """
    launcher = detect(job.command) if job.command_launcher is not None else None
    if launcher is None:
        return
    problem = refusal(launcher, job.command, layout.nodes, one_machine=one_machine)
    if problem is not None:
        raise CheckFailed(
            f"`{launcher.name}` cannot run on the {layout.nodes} nodes of this run: {problem}",
            hint="leave out the option: gofer gives each node its number and the master address; "
            "or ask for one node, with fewer GPUs or `-N 1`; `--procs 1` runs it unchanged on each",
        )
    if layout.nodes > 1 or layout.gpus_per_node > 1:
        session.emit(Message(_words(launcher.name, layout)))


def _words(name: str, layout: Layout) -> str:
    other = "`--procs N` starts N per node instead"
    if layout.first_node_only:
        return (
            f"`{name}` reaches the other nodes by itself: it starts once, on the first of {layout.nodes}, "
            f"with their names in the file $GOFER_HOSTFILE; {other}"
        )
    how = ""
    if layout.nodes > 1:
        how = "as options" if name in (ACCELERATE, DEEPSPEED_NO_SSH, FABRIC) else "in its environment"
        how = f", and gets its node number and the master address {how}"
    count = "once" if layout.nodes == 1 else f"once on each of {layout.nodes} nodes"
    return f"`{name}` starts processes itself: it starts {count}{how}; {other}"


def note(session: Session, job: Job, layout: Layout, folder: Path | None) -> None:
    """Warn that a launcher in a shell script would start once in each process of the run."""
    count = layout.world_size
    if job.command_launcher is not None or job.sbatch is not None or job.resources.procs is not None:
        return
    found = find(job.command, folder / job.workdir if folder else None) if count > 1 else None
    if found is not None and job.multi_process and job.launcher == "spawn":
        where, launcher = found
        session.emit(
            Message(
                f"{where} has `{launcher}` in it, and starts {count} times, once in each process of the run; "
                "`--procs 1` starts it once on each node"
            )
        )


def find(argv: Sequence[str], folder: Path | None) -> tuple[str, str] | None:
    """(where in the command a launcher's name is, the name); None when there is none."""
    at = skip_wrappers(argv)
    if at >= len(argv):
        return None
    where, text = argv[at], None
    if os.path.basename(where) in _SHELLS:
        where, text = _of_shell(argv, at, folder)
    elif folder is not None:
        text = _read(folder / where)
        text = text if text is not None and _SHEBANG.match(text) else None
    found = _LAUNCHER.search(_COMMENT.sub("", text)) if text is not None else None
    return None if found is None else (f"`{where}`", _name(found.group(1)))


def _of_shell(argv: Sequence[str], at: int, folder: Path | None) -> tuple[str, str | None]:
    """`sh -c` and its text, or the name and text of a script."""
    shell = os.path.basename(argv[at])
    at += 1
    while at < len(argv) and argv[at].startswith("-"):
        if _COMMAND_OPTION.fullmatch(argv[at]):
            return f"{shell} -c", "".join(argv[at + 1 : at + 2])
        at += 2 if argv[at].endswith("o") else 1
    if at >= len(argv) or folder is None:
        return shell, None
    return argv[at], _read(folder / argv[at])


def _read(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def _name(words: str) -> str:
    """The name of a launcher as people know it: `torchrun`, `accelerate launch`, `torch.distributed.run`."""
    return words.split()[-1].removeprefix("-m") if words.startswith("python") else " ".join(words.split())
