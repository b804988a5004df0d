"""Warn at submit when a shell script contains the name of a launcher and would be started several times.

A script can do anything, so gofer only warns, and never changes how often it starts the script.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from gofer.core.command_launcher import skip_wrappers
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
