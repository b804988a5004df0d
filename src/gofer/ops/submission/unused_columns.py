"""Say which columns of an array nothing in the job seems to use: each of its rows would do the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.core.command import rows
from gofer.core.launch import argument_environment
from gofer.ops.messages import Warning

if TYPE_CHECKING:
    from gofer.model.job import Array, Job
    from gofer.ops.session import Session

_PREFIX = "GOFER_ARG_"
_MOST_BYTES = 1 << 20


def warn_of_unused(session: Session, job: Job, array: Array) -> None:
    """Warn of columns that stand neither in the command nor as `GOFER_ARG_…` in the texts of the job.

    A script of the command that has `GOFER_ARG_` anywhere may use every column. A script that is not there is
    no error here.
    """
    used = rows.placeholders(job.command)
    texts = "\n".join([*job.command, job.setup or "", *job.env.values()])
    unused = {
        name: variable
        for name in array.columns
        if name not in used and (variable := _variable(name)).startswith(_PREFIX) and variable not in texts
    }
    if not unused or any(_PREFIX.encode() in data for data in _scripts(session.folder, job)):
        return
    names = ", ".join(f"`{{{name}}}`" for name in unused)
    first = next(iter(unused.values()))
    session.emit(Warning(f"the command does not use {names}; a program finds the value as ${first}"))


def _variable(column: str) -> str:
    return list(argument_environment({column: ""}))[-1]


def _scripts(folder: Path, job: Job) -> Iterator[bytes]:
    """The beginnings of the files that the command names."""
    for word in job.command:
        with suppress(OSError, ValueError):
            path = folder / word
            if path.is_file():
                with open(path, "rb") as file:
                    yield file.read(_MOST_BYTES)
