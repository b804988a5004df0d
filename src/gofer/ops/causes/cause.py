"""A failed run as its causes see it, and the answer of one of them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gofer.ops.submission.submit_line import submit_line

if TYPE_CHECKING:
    from gofer.model.job import Job
    from gofer.model.run import RunRecord
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


class Cause(NamedTuple):
    """Why a run failed and what helps, as a phrase, and the commands to type, the most likely first.

    `words` are empty when the reason of the run says enough. Each command works as it is.
    """

    words: str
    next: tuple[str, ...]


class FailedRun(NamedTuple):
    """A run that failed, with the last lines of its log. `peak_mib` is the most memory that a node used."""

    session: Session
    row: RunRow
    record: RunRecord
    lines: tuple[str, ...]
    peak_mib: float | None = None

    @property
    def job(self) -> Job:
        """The job of this run alone: a row of an array has its own command."""
        job = self.record.job
        return job if self.row.group_id is None else msgspec.structs.replace(job, command=self.row.command)

    @property
    def project(self) -> Path | None:
        """The folder of the code, if it is on this machine."""
        code = self.record.code
        folder = None if code is None else Path(code.folder)
        return folder if folder is not None and folder.is_dir() else None

    @property
    def again(self) -> str:
        """The command that submits the run again, with the code that the folder has now."""
        return again(self.row)

    def with_job(self, job: Job) -> str:
        """The line that submits another job like this run, from any folder."""
        line = submit_line(msgspec.structs.replace(self.record, job=job))
        folder = self.project
        if folder is None or job.function is not None:
            return line
        where = os.path.normpath(folder / job.workdir)
        if os.path.realpath(where) == os.path.realpath(self.session.folder):
            return line
        return f"cd {shlex.quote(where)} && {line}"

    def path_here(self, path: str) -> str:
        """A path of the project, by its path from the top of the code, as a person in this folder types
        it.
        """
        whole = os.path.normpath(os.path.join(self.record.code.folder if self.record.code else "", path))
        near = os.path.relpath(whole, self.session.folder)
        return whole if near.startswith("..") else near


def again(row: RunRow) -> str:
    """The command that submits a run again; for a row of an array, all rows that did not succeed."""
    if row.group_id is not None:
        return f"gofer resubmit --failed {row.group_id.split('-', 2)[-1]}"
    return f"gofer resubmit {row.short_id}"
