"""Check before submission that the program or script of the command exists."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gofer.core.command.programs import locate
from gofer.core.command.rows import placeholders
from gofer.errors import CheckFailed
from gofer.node.code.project_environments import is_environment
from gofer.ops.submission.code import workdir
from gofer.ops.submission.left_out import advise_include
from gofer.text import did_you_mean, quote_word

if TYPE_CHECKING:
    from gofer.model.job import Job
    from gofer.ops.session import Session
    from gofer.snapshot.summary import Snapshot

_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


def check(session: Session, job: Job, *, folder: Path | None, local: bool) -> Job:
    """The job with its working folder and, for a plain `script.py`, its interpreter; CheckFailed when it does
    not exist.

    The program itself can be checked only on a target on this machine (`local`).
    """
    search = session.environ.get("PATH", os.defpath)
    job = msgspec.structs.replace(
        job,
        workdir="." if folder is None else workdir(session, folder),
        command=with_interpreter(job.command, session.folder, search),
    )
    program, base = job.command[0], session.folder if folder is not None else None
    if placeholders([program]):
        return job
    if local:
        _check_program(job.command, base, session.folder, search)
    script = script_of(job.command)
    if script is not None and not placeholders([script]):
        _check_script(script, base)
    return job


def check_included(job: Job, folder: Path, taken: Snapshot, linked: Sequence[str] = ()) -> None:
    """CheckFailed when the current folder, the program or the script is in the code folder, but an ignore
    rule left it out of the snapshot.

    Files in a mapped folder are excepted, and so are the environments `linked`, which the working copy has as
    links.
    """
    if not taken.has(job.workdir):
        raise CheckFailed(
            f"the folder `{job.workdir}` is in `{folder}` but not in the code that would be sent",
            hint="an ignore rule leaves it out; `gofer submit --code-folder .` sends this folder alone",
        )
    program = job.command[0] if "/" in job.command[0] else None
    for word in (program, script_of(job.command)):
        if word is None or os.path.isabs(word) or placeholders([word]):
            continue
        path = os.path.normpath(os.path.join(job.workdir, word))
        if path.partition("/")[0] in job.folders or any(path.startswith(f"{one}/") for one in linked):
            continue
        if not path.startswith("..") and os.path.exists(folder / path) and not taken.has(path):
            raise CheckFailed(
                f"`{word}` is in `{folder}` but not in the code that would be sent",
                hint=_hint(folder, path, job.workdir),
            )


def _hint(folder: Path, path: str, workdir: str) -> str:
    parents = [path.rsplit("/", number)[0] for number in range(1, path.count("/") + 1)]
    if any(is_environment(os.path.join(folder, one)) for one in parents):
        return (
            "a Python environment is of no use on another machine; `--packages auto` builds one there from a "
            "requirements.txt"
        )
    return f"an ignore rule leaves it out; {advise_include(path, workdir)}"


def with_interpreter(command: tuple[str, ...], here: Path, search: str) -> tuple[str, ...]:
    """The command, with `python` in front if its first word is a Python script and not a program.

    A word that ends in `.py` is a program if it is a path with a slash to an executable file, or the name of
    a program on the path `search` and not of a file in the folder `here`. Every other such word is a script,
    even an executable file that is named without a slash, or a file that does not exist.
    """
    word = command[0]
    if not word.endswith(".py"):
        return command
    path = here / word
    if "/" in word:
        is_program = path.is_file() and os.access(path, os.X_OK)
    else:
        is_program = not path.is_file() and locate(word, search) is not None
    return command if is_program else ("python", *command)


def _check_program(command: tuple[str, ...], here: Path | None, typed_in: Path, search: str) -> None:
    """CheckFailed when the first word is not a program. `typed_in` is the folder of the person."""
    program = command[0]
    if "/" in program:
        path = _locate("program", program, here)
        if not os.path.exists(path):  # False also for a name that is too long for a file system
            hint = _other_form(command, typed_in) or f"looked in `{here or '/'}`"
            raise CheckFailed(f"the program `{program}` does not exist", hint=hint)
        if not os.access(path, os.X_OK):
            raise CheckFailed(f"the program `{program}` cannot be executed", hint=f"`chmod +x {program}`")
    elif locate(program, search) is None:
        raise CheckFailed(
            f"there is no program `{program}`",
            hint=_other_form(command, typed_in)
            or did_you_mean(program, _programs(search))
            or "is its environment active? A file of this folder is written `./NAME`",
        )


def _other_form(command: tuple[str, ...], here: Path) -> str | None:
    """How the command is written for gofer, if its first word is meant for a shell or is a file of the folder
    `here`; else None.
    """
    program = command[0]
    if _ASSIGNMENT.fullmatch(program):
        return f"no shell reads the command; a variable is an option before it: `-e {quote_word(program)}`"
    if any(mark.isspace() for mark in program):
        return f"the first word is the program; for a whole shell command write `sh -c {quote_word(program)}`"
    if os.path.isfile(here / program):  # False also for a name that is too long
        return f"a file of this folder is written `{quote_word('./' + program)}`"
    return None


def _programs(search: str) -> list[str]:
    found: list[str] = []
    for folder in search.split(os.pathsep):
        try:
            found += os.listdir(folder)
        except OSError:
            continue
    return found


def script_of(command: tuple[str, ...]) -> str | None:
    """The file that `python file.py` or `bash file.sh` would read, if that is obvious."""
    name = os.path.basename(command[0])
    is_python = _PYTHON.fullmatch(name) is not None
    if not (is_python or name in ("sh", "bash")):
        return None
    for word in command[1:]:
        if not word.startswith("-"):
            return word
        # Short options may be combined (`-lc`). After these options follows no file, or a value of the
        # option.
        if word in ("-", "--") or word[:2] == "--" or set(word) & set("cmWX" if is_python else "coOs"):
            return None
    return None


def _locate(what: str, name: str, here: Path | None) -> Path:
    """The path of a file in the command; CheckFailed if only the code could contain it and no code is
    sent.
    """
    if here is None and not os.path.isabs(name):
        raise CheckFailed(
            f"the {what} `{name}` would be missing: without code the command runs in an empty folder",
            hint="leave out `--no-code`, or write the absolute path of the file",
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
