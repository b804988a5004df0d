"""Failures of Python: a module that is not installed, and an exception in the project's own code."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import msgspec

from gofer.backends import registry
from gofer.node.code.working_copy import read_code
from gofer.node.packages.package_files import AUTO, PYPROJECT, REQUIREMENTS, find
from gofer.ops.causes.cause import Cause
from gofer.ops.causes.project_paths import in_project
from gofer.text import quote_command, quote_word

if TYPE_CHECKING:
    from pathlib import Path

    from gofer.model.job import Job
    from gofer.ops.causes.cause import FailedRun

_MODULE = re.compile(
    r"ModuleNotFoundError: No module named '(?P<module>\w+)|: No module named (?P<main>\w+)$"
)
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Warning|Exit)\b(?::.*)?$")
_LONGEST = 160
# The names under which PyPI has modules of another name.
_DISTRIBUTIONS = {
    **{"cv2": "opencv-python", "PIL": "pillow", "sklearn": "scikit-learn", "skimage": "scikit-image"},
    **{"yaml": "PyYAML", "bs4": "beautifulsoup4", "dotenv": "python-dotenv", "Crypto": "pycryptodome"},
}


def find_missing_module(run: FailedRun) -> Cause | None:
    """A module that the Python of the command lacks: it is in `.venv`, in `src/`, or not installed."""
    found = next((one for line in reversed(run.lines) if (one := _MODULE.search(line.strip()))), None)
    if found is None or run.project is None:
        return None
    module = found["module"] or found["main"]
    return _in_src(run, run.project, module) or _in_venv(run, run.project, module) or _from_list(run, module)


def _in_src(run: FailedRun, project: Path, module: str) -> Cause | None:
    for folder in ("src", "lib"):
        if any((project / folder / f"{module}{end}").exists() for end in ("", ".py")):
            path = os.path.relpath(folder, run.job.workdir)
            line = run.with_job(_with_variable(run, "PYTHONPATH", path))
            return Cause(f"`{module}` is in `{folder}/`, where this Python does not look", (line,))
    return None


def _with_variable(run: FailedRun, name: str, value: str) -> Job:
    return msgspec.structs.replace(run.job, env={**run.job.env, name: value})


def _in_venv(run: FailedRun, project: Path, module: str) -> Cause | None:
    """The project's own environment has the module, and the command ran another Python."""
    program, *more = run.job.command
    if not registry.runs_here(run.row.backend) or program not in ("python", "python3"):
        return None
    for name in (".venv", "venv"):
        if any((project / name).glob(f"lib/python*/site-packages/{module}*")):
            path = os.path.relpath(f"{name}/bin/python", run.job.workdir)
            job = msgspec.structs.replace(run.job, command=(path, *more))
            return Cause(f"`{name}` has `{module}`, and the command ran another Python", (run.with_job(job),))
    return None


def _from_list(run: FailedRun, module: str) -> Cause:
    """The list of packages of the project is installed, or gets the module first."""
    assert run.project is not None
    name = _DISTRIBUTIONS.get(module, module)
    read = read_code(str(run.project))
    listed = find(AUTO, run.job.workdir, read)
    line = run.with_job(msgspec.structs.replace(run.job, packages=AUTO))
    if listed is not None and _lists(read(listed.path) or "", name):
        return Cause("", (line,))
    if listed is not None and os.path.basename(listed.path) not in (PYPROJECT, REQUIREMENTS, "uv.lock"):
        return Cause(f"add `{name}` to {listed.path} first", (line,))
    path = REQUIREMENTS if listed is None else listed.path
    where = quote_word(run.path_here(os.path.join(run.job.workdir if listed is None else "", path)))
    if os.path.basename(path) == REQUIREMENTS:
        add = f"echo {quote_word(name)} >> {where}"
    else:
        folder = os.path.dirname(run.path_here(path)) or "."
        add = quote_command(["uv", "add", "--project", folder, name])
    return Cause(f"`{name}` is not in {path} yet", (f"{add} && {line}",))


def _lists(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE) is not None


def find_exception(run: FailedRun) -> Cause | None:
    """The exception, and the last line of the project's own code that led to it."""
    lines = in_project(run.session, run.record, run.lines)
    words = next((line for line in reversed(lines) if _EXCEPTION.match(line)), None)
    frames = [found for line in lines if (found := _FRAME.match(line))]
    own = next((one for one in reversed(frames) if _is_own(run, one["file"])), None)
    if words is None or own is None:
        return None
    where = f"{own['file']}, line {own['line']}"
    return Cause(f"`{words[:_LONGEST]}` at {where}", (run.again,))


def _is_own(run: FailedRun, file: str) -> bool:
    """Whether the file is the project's own code, by its path as a person in this folder types it."""
    code = run.record.code
    if code is None or file.startswith("<") or "/site-packages/" in file:
        return False
    return not os.path.isabs(file) or file.startswith(f"{code.folder}/")
