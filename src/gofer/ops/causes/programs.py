"""Failures to start a program: a name that no folder has, a file that may not be run, Windows line ends."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import msgspec

from gofer.backends import registry
from gofer.core.command.programs import locate
from gofer.node.failure_advice import NO_REPOSITORY
from gofer.ops.causes.cause import Cause
from gofer.ops.submission.entry_point import likely_programs
from gofer.text import closest, quote_word

if TYPE_CHECKING:
    from pathlib import Path

    from gofer.model.job import Job
    from gofer.ops.causes.cause import FailedRun

# bash: `run.sh: line 3: pythn: command not found`; dash: `run.sh: 3: pythn: not found`; env and exec.
_NOT_FOUND = re.compile(
    r"(?:^|(?P<script>[^:\s]+): (?:line )?(?P<line>\d+): (?:exec: )?)"
    r"(?P<name>[\w.+@-]*[A-Za-z][\w.+@-]*): (?:command )?not found"
    r"|^gofer: cannot run `(?P<first>[^`/]+)`: No such file"
    r"|^(?:/usr/bin/)?env: ['\u2018](?P<env>[^'\u2019/\s]+)['\u2019]: No such file"
)
_NOT_ALLOWED = re.compile(r"(?:^|: )(?:exec: )?(?P<path>[^\s:`]+): Permission denied")
# Since 5.2 bash does not name the interpreter with the line end; before, it did.
_NO_INTERPRETER = re.compile(
    r"(?:^|: )(?P<path>[^\s:]+): (?:.*bad interpreter|cannot execute: required|not found)"
)
_RETURN = re.compile(
    r"^gofer: cannot run `(?P<path>[^`]+)`: its first line .* has a Windows line end"
    r"|(?P<script>[^:\s]+): (?:line )?\d+: .*\\r': command not found"
    r"|(?P<sh>[^:\s]+): (?:line )?\d+: .*\r: not found"
)
# `#!/usr/bin/env bash` with a Windows line end: the line does not name the script.
_RETURN_OF_ENV = re.compile(r"^(?:/usr/bin/)?env: .*(?:\\r|\r)['\u2019]?: No such file")
_LONGEST_LINE = 4096
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")


def find_windows_lines(run: FailedRun) -> Cause | None:
    """A script with Windows line ends, and the line that corrects it."""
    for line in run.lines:
        found, other = _RETURN.search(line), _NO_INTERPRETER.search(line)
        name = found["path"] or found["script"] or found["sh"] if found else other and other["path"]
        path = _in_project(run, name) if name else None
        if path is not None and (found or _has_windows_lines(run.session.folder / path)):
            return _windows_lines(run, path)
    if any(_RETURN_OF_ENV.search(line) for line in run.lines):
        return _windows_lines_of_command(run)
    return None


def _windows_lines_of_command(run: FailedRun) -> Cause:
    """The script is in the command, also within a line for a shell."""
    words = [*run.job.command, *(word for part in run.job.command for word in part.split())]
    paths = [_in_project(run, word) for word in words]
    path = next((one for one in paths if one and _has_windows_lines(run.session.folder / one)), None)
    if path is None:
        return Cause("a script that it started has Windows line ends", (run.again,))
    return _windows_lines(run, path)


def _windows_lines(run: FailedRun, path: str) -> Cause:
    words = f"`{path}` has Windows line ends"
    return Cause(words, (f"sed -i 's/\\r$//' {quote_word(path)} && {run.again}",))


def _has_windows_lines(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.readline(_LONGEST_LINE).endswith(b"\r\n")
    except OSError:
        return False


def find_forbidden_program(run: FailedRun) -> Cause | None:
    """A file of the project that a shell could not start because it is not executable."""
    for line in run.lines:
        found = _NOT_ALLOWED.search(line)
        path = None if found is None else _in_project(run, found["path"])
        if path is not None and not os.access(run.session.folder / path, os.X_OK):
            return Cause(f"`{path}` is not executable", (f"chmod +x {quote_word(path)} && {run.again}",))
    return None


def find_missing_repository(run: FailedRun) -> Cause | None:
    """A command that needs the git repository of the project, which stayed behind. The node explains it."""
    code = run.record.code
    if code is None or not code.commit or code.git or not any(NO_REPOSITORY.search(one) for one in run.lines):
        return None
    record = msgspec.structs.replace(run.record, code=msgspec.structs.replace(code, git=True))
    return Cause("", (run._replace(record=record).with_job(run.job),))


def find_missing_program(run: FailedRun) -> Cause | None:
    """A program that does not exist: the nearest name, or where to install it."""
    found = next((one for line in reversed(run.lines) if (one := _NOT_FOUND.search(line))), None)
    if found is None:
        return None
    name = found["name"] or found["first"] or found["env"]
    environ = run.session.environ
    is_here = registry.runs_here(run.row.backend)
    near = closest(name, likely_programs(environ.get("PATH", os.defpath), environ, is_here=is_here))
    place = _place(found)
    if near is None or near == name:
        return _uninstalled(run, name, place)
    job = _replaced(run.job, name, near)
    if job is None:
        words = f"there is no program `{name}`{place}; did you mean `{near}`? Correct it there first"
        return Cause(words, (run.again,))
    return Cause(f"there is no program `{name}`; did you mean `{near}`?", (run.with_job(job),))


def _place(found: re.Match[str]) -> str:
    script = found["script"]
    is_file = script is not None and os.path.basename(script) not in _SHELLS
    return f" (line {found['line']} of {script})" if is_file else ""


def _uninstalled(run: FailedRun, name: str, place: str) -> Cause:
    """`python` is `python3` on many machines. Anything else must be installed, or activated by `--setup`."""
    other = {"python": "python3", "pip": "pip3"}.get(name)
    job = None if other is None else _replaced(run.job, name, other)
    if job is not None:
        return Cause(f"most machines have `{other}`", (run.with_job(job),))
    is_here = locate(name, run.session.environ.get("PATH", os.defpath)) is not None
    where = " on the node, although this machine has it" if is_here else ""
    words = (
        f"there is no program `{name}`{where}{place}: install it, or activate its environment by `--setup`"
    )
    return Cause(words, (run.again,))


def _replaced(job: Job, name: str, other: str) -> Job | None:
    """The job with another program; None when neither its command nor its set-up has the name."""
    word = re.compile(rf"(?<![\w./-]){re.escape(name)}(?![\w./-])")
    command = tuple(word.sub(other, one) for one in job.command)
    setup = None if job.setup is None else word.sub(other, job.setup)
    changed = msgspec.structs.replace(job, command=command, setup=setup)
    return None if changed == job else changed


def _in_project(run: FailedRun, name: str) -> str | None:
    """The path of a file of the project, by its name in the run, as a person in this folder types it."""
    if run.project is None or os.path.isabs(name):
        return name if os.path.isfile(name) else None
    path = os.path.normpath(os.path.join(run.job.workdir, name))
    return run.path_here(path) if (run.project / path).is_file() else None
