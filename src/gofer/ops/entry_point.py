"""Find out before the queue does that the program or the script is not there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gofer.agent.rows import placeholders
from gofer.agent.spawn import locate
from gofer.errors import CheckFailed
from gofer.text import did_you_mean

if TYPE_CHECKING:
    from gofer.model.job import Job
    from gofer.ops.session import Session
    from gofer.snapshot import Snapshot

_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")


def check(session: Session, job: Job, *, folder: Path | None, local: bool) -> Job:
    """The job with its working folder and, for a bare `script.py`, its interpreter; CheckFailed when absent.

    The program itself can be looked for only on this machine's own target (`local`).
    """
    job = msgspec.structs.replace(
        job, workdir=_workdir(session, folder), command=_interpreted(job.command, session.folder)
    )
    program, base = job.command[0], session.folder if folder is not None else None
    if placeholders([program]):
        return job
    if local:
        _check_program(program, base, session.environ.get("PATH", os.defpath))
    script = _script(job.command)
    if script is not None and not placeholders([script]):
        _check_script(script, base)
    return job


def check_included(job: Job, folder: Path, taken: Snapshot) -> None:
    """CheckFailed when the script is in the folder but an ignore rule kept it out of the snapshot.

    A script in a mapped folder comes with that.
    """
    script = _script(job.command)
    if script is None or os.path.isabs(script) or placeholders([script]):
        return
    path = os.path.normpath(os.path.join(job.workdir, script))
    if path.partition("/")[0] in job.folders:
        return
    if not path.startswith("..") and not taken.has(path):
        raise CheckFailed(
            f"`{script}` is in `{folder}` but not in the code that would be sent",
            hint=f"an ignore rule leaves it out; add the line `!{path}` to `.goferignore`",
        )


def _workdir(session: Session, folder: Path | None) -> str:
    """A command given in a folder below the project's runs in that folder there too."""
    if folder is None:
        return "."
    inside = os.path.relpath(os.path.abspath(session.folder), folder)
    return "." if inside.startswith("..") else inside


def _interpreted(command: tuple[str, ...], here: Path) -> tuple[str, ...]:
    """`script.py …` that cannot be executed by itself is meant for Python, as in `xt run script.py`."""
    path = here / command[0]
    if command[0].endswith(".py") and path.is_file() and not ("/" in command[0] and os.access(path, os.X_OK)):
        return ("python", *command)
    return command


def _check_program(program: str, here: Path | None, search: str) -> None:
    if "/" in program:
        path = _locate("program", program, here)
        if not path.exists():
            raise CheckFailed(f"the program `{program}` is not there", hint=f"looked in `{here or '/'}`")
        if not os.access(path, os.X_OK):
            raise CheckFailed(f"the program `{program}` cannot be executed", hint=f"`chmod +x {program}`")
    elif locate(program, search) is None:
        near = did_you_mean(program, _programs(search))
        raise CheckFailed(
            f"there is no program `{program}`",
            hint=near or "is its environment active? A file of this folder is written `./NAME`",
        )


def _programs(search: str) -> list[str]:
    found: list[str] = []
    for folder in search.split(os.pathsep):
        try:
            found += os.listdir(folder)
        except OSError:
            continue
    return found


def _script(command: tuple[str, ...]) -> str | None:
    """The file that `python file.py` or `bash file.sh` would read, where that is plain to see."""
    name = os.path.basename(command[0])
    is_python = _PYTHON.fullmatch(name) is not None
    if not (is_python or name in ("sh", "bash")):
        return None
    for word in command[1:]:
        if not word.startswith("-"):
            return word
        # Short options may stand together (`-lc`). Behind these comes no file, or the option's own word.
        if word in ("-", "--") or word[:2] == "--" or set(word) & set("cmWX" if is_python else "coOs"):
            return None
    return None


def _locate(what: str, name: str, here: Path | None) -> Path:
    """Where a file named in the command would be; CheckFailed for one that only code could bring along."""
    if here is None and not os.path.isabs(name):
        raise CheckFailed(
            f"the {what} `{name}` would not be there: without code the command runs in an empty folder",
            hint="leave `--no-code` out, or name the file from `/`",
        )
    return Path(name) if here is None else here / name


def _check_script(script: str, here: Path | None) -> None:
    path = _locate("script", script, here)
    if not path.exists():
        around = path.parent if path.parent.is_dir() else path.parent.parent
        known = [entry.name for entry in os.scandir(around)] if around.is_dir() else []
        raise CheckFailed(
            f"the script `{script}` is not in `{here or '.'}`", hint=did_you_mean(path.name, known)
        )
