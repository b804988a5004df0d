"""gofer from Python: submit a command, wait for it, read its log.

    run = gofer.submit(["python", "train.py"], target="lab", gpus=8, tags={"lr": "0.1"})
    run.wait()
    print(run.state, run.logs())

Every call blocks and may raise gofer.GoferError. A Run keeps nothing open and may be used from any thread.
What the command line says on stderr goes to the logger `gofer`, choice is silent until `logging` is set up.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gofer.config.jobs import JobFlags
from gofer.ops.logs.log_reader import LogReader
from gofer.ops.logs.log_sources import LogChoice
from gofer.ops.messages import AnyMessage, Warning
from gofer.ops.runs import find, observe, stop
from gofer.ops.runs.freshness import refresh_active, refresh_runs
from gofer.ops.runs.view import run_json
from gofer.ops.session import Session
from gofer.ops.submission.submit import SubmitRequest
from gofer.ops.submission.submit import submit as submit_run
from gofer.text import format_time

if TYPE_CHECKING:
    from gofer.tracking.ledger import RunRow

_Folder = str | os.PathLike[str]
_logger = logging.getLogger("gofer")
_logger.addHandler(logging.NullHandler())


class Run:
    """One run, or a group of runs. Made by `submit`, `runs` and `Run.find`."""

    def __init__(self, run_id: str, *, folder: _Folder | None = None) -> None:
        self.id = run_id
        self._folder = None if folder is None else Path(folder)

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    @classmethod
    def find(cls, reference: str, *, folder: _Folder | None = None) -> Run:
        """The run that an id, a unique beginning or end of one, or `last` means."""
        with _session(folder) as session:
            return cls(find.find(session, reference).id, folder=folder)

    @property
    def state(self) -> str:
        """Each call asks the cluster: `queued`, `running`, `succeeded`, `failed`, …

        While the cluster cannot be asked, the last state that is known; `info()["observed_at"]` is its time.
        """
        return self._refreshed_row().state

    @property
    def reason(self) -> str | None:
        """Why it is in its state, in one word: `exit-code`, `time-limit`, `user`, …"""
        return self._refreshed_row().reason

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 + the signal when one ended it."""
        return self._refreshed_row().exit_code

    @property
    def tags(self) -> dict[str, str]:
        return self._refreshed_row().tags

    def info(self) -> dict[str, Any]:
        """Everything known, as `gofer q --json` prints it."""
        with _session(self._folder) as session:
            return run_json(session, self._refreshed(session))

    def wait(self, timeout_s: float | None = None) -> Run:
        """Block until it has ended; gofer.errors.Interrupted when the time is over before."""
        with _session(self._folder) as session:
            observe.wait(session, [self.id], timeout_s=timeout_s)
        return self

    def logs(self, *, rank: int = 0, node: int | None = None, attempt: int | None = None) -> str:
        """The log that `gofer logs` prints, so far: of one rank of the last attempt, else the service's own.

        Bytes that are not UTF-8 are replaced.
        """
        choice = LogChoice(rank, node, attempt)
        with _session(self._folder) as session:
            data = b"".join(LogReader(session, find.find(session, self.id)).read(choice))
        return data.decode("utf-8", "replace")

    def follow(self, *, rank: int = 0) -> Iterator[str]:
        """Pieces of the log, as `gofer logs -f` prints them, until the run ends."""
        with _session(self._folder) as session:
            row = find.find(session, self.id)
            for piece in LogReader(session, row).follow(LogChoice(rank), lines=None):
                yield piece.decode("utf-8", "replace")

    def abort(self, *, grace_s: float | None = None) -> Run:
        """Stop it, gracefully and then firmly, and wait until it has stopped."""
        with _session(self._folder) as session:
            stop.abort(session, [self._refreshed(session)], grace_s=grace_s)
        return self

    def rows(self) -> list[Run]:
        """The runs of a group, in order; empty for a single run."""
        with _session(self._folder) as session:
            return [Run(row.id, folder=self._folder) for row in session.ledger.rows_of(self.id)]

    @property
    def submitted_at(self) -> str | None:
        return format_time(self._refreshed_row().submitted_at)

    def _refreshed_row(self) -> RunRow:
        with _session(self._folder) as session:
            return self._refreshed(session)

    def _refreshed(self, session: Session) -> RunRow:
        (row,) = refresh_runs(session, [find.find(session, self.id)])
        return row


def submit(
    command: Sequence[str],
    *,
    target: str | None = None,
    folder: _Folder | None = None,
    each: Mapping[str, Sequence[object]] | None = None,
    code: bool = True,
    **job: Any,
) -> Run:
    """Run `command` on a target with the code of `folder` (default: the current one), and return at once.

    `job` takes the fields of `gofer.config.jobs.JobFlags`: name, gpus, nodes, procs, cpus, env, tags, sync,
    setup, time_limit_s, grace_s, retries, retry_on, priority, multi_process. `each` makes an array: every
    combination of its values, `{name}` replaced in the command; the Run is then the group.
    """
    flags = JobFlags(**{name: value for name, value in job.items() if value is not None})
    request = SubmitRequest(
        flags=flags,
        command=tuple(os.fspath(word) for word in command),
        target=target,
        columns={name: tuple(map(str, values)) for name, values in (each or {}).items()},
        code=code,
    )
    with _session(folder) as session:
        return Run(submit_run(session, request).id, folder=folder)


def runs(*filters: str, last: int | None = None, folder: _Folder | None = None) -> list[Run]:
    """Runs of the ledger, newest first: `gofer.runs("state=failed", "age<7d")`.

    Asks the clusters first. A run of a cluster that is away is listed as it was last seen.
    """
    from gofer.tracking.query import Query, parse_filters

    with _session(folder) as session:
        refresh_active(session)
        found = session.ledger.select(Query(filters=parse_filters(filters), limit=last))
        return [Run(row.id, folder=folder) for row in found]


def _session(folder: _Folder | None) -> Session:
    return Session(None if folder is None else Path(folder), emit=_log)


def _log(message: AnyMessage) -> None:
    """A library does not write to stderr by itself."""
    if isinstance(message, Warning):
        _logger.warning("%s", message.text)
    else:
        _logger.info("%s", message)
