"""A run from Python: its state, its log, its files, and what can be done with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from gofer.api import display
from gofer.api.project import FolderPath, OpenProject
from gofer.api.results import check_succeeded, result_of, results_of_ranks, results_of_rows
from gofer.errors import GoferError, Interrupted, StoreError, TimedOut, UsageError
from gofer.ops.files.extract import extract
from gofer.ops.files.run_store import view_of
from gofer.ops.logs.chosen_lines import ALL, ChosenLines, choose_lines
from gofer.ops.runs import find, observe, stop
from gofer.ops.runs.freshness import refresh_active, refresh_runs
from gofer.ops.runs.tags import tag
from gofer.ops.runs.view import run_json
from gofer.ops.runs.why import why
from gofer.ops.session import Session
from gofer.ops.submission.resubmit import resubmit
from gofer.text import format_time
from gofer.tracking.query import Query, parse_filters
from gofer.tracking.rows import RunRow


class Run:
    """One run, or a group of runs. Made by `submit`, `map`, `runs` and `Run.find`.

    A Run keeps nothing open and may be used from any thread.
    """

    def __init__(self, run_id: str, *, folder: FolderPath | None = None) -> None:
        self.id = run_id
        self._folder = None if folder is None else Path(folder)

    def __repr__(self) -> str:
        """With the last known state. Asks no cluster."""
        try:
            return display.as_text(self.id, self._known_row())
        except GoferError:
            return f"Run({self.id!r})"

    def _repr_html_(self) -> str:
        """A table of one line for notebooks. Asks the cluster."""
        return display.as_table([self._refreshed_row()])

    @classmethod
    def find(cls, reference: str, *, folder: FolderPath | None = None) -> Run:
        """The run of an id, a unique part of an id, a name, `last` or `last~N`: see docs/runs.md."""
        with OpenProject(folder) as session:
            return cls(find.find(session, reference).id, folder=folder)

    @property
    def name(self) -> str:
        return self._known_row().name

    @property
    def target(self) -> str:
        """The name of the target."""
        return self._known_row().target

    @property
    def command(self) -> list[str]:
        """The words of the command."""
        return self._known_row().command

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

    @property
    def submitted_at(self) -> str | None:
        return format_time(self._known_row().submitted_at)

    def info(self) -> dict[str, Any]:
        """Everything known, as `gofer q --json` prints it."""
        with OpenProject(self._folder) as session:
            return run_json(session, self._refreshed(session))

    def why(self) -> str:
        """Why the run waits or how it ended, as `gofer why` says it; empty when there is nothing to say."""
        with OpenProject(self._folder) as session:
            found = why(session, self._refreshed(session))
        if found.row.kind == "group":
            return "\n".join(f"{one.runs} {one.state}: {one.why or one.reason}" for one in found.reasons)
        return found.words or ""

    def wait(self, timeout_s: float | None = None, *, raise_on_failure: bool = False) -> Run:
        """Block until it has ended.

        TimedOut, which is also a TimeoutError, when the time is over before. With `raise_on_failure`,
        RunFailed unless it succeeded.
        """
        wait([self], timeout_s, raise_on_failure=raise_on_failure, folder=self._folder)
        return self

    def result(self, timeout_s: float | None = None) -> Any:
        """Block until it has ended, and return what its function returned, on rank 0.

        Raises what the function raised, with the traceback of the node as its cause; RunFailed when the run
        did not succeed for another reason, or when the exception cannot be loaded here. TimedOut, which is
        also a TimeoutError, when the time is over before. ResultError when the result is missing, or another
        has been put in its place. UsageError for the run of a command and for a group.
        """
        wait([self], timeout_s, folder=self._folder)
        with OpenProject(self._folder) as session:
            row = find.find(session, self.id)
            if row.kind == "group":
                raise UsageError(
                    f"{row.short_id} is a group of {row.size} runs", hint="`run.results()` has their results"
                )
            return result_of(session, row)

    def results(self, timeout_s: float | None = None, *, return_exceptions: bool = False) -> list[Any]:
        """As `result`: for a group the results of its rows, in order, else those of all ranks.

        When rows have failed, the exception of the first of them is raised, or with `return_exceptions` each
        stands in the place of its result.
        """
        wait([self], timeout_s, folder=self._folder)
        with OpenProject(self._folder) as session:
            row = find.find(session, self.id)
            if row.kind == "group":
                rows = session.ledger.rows_of(row.id)
                return results_of_rows(session, row, rows, return_exceptions=return_exceptions)
            return results_of_ranks(session, row, return_exceptions=return_exceptions)

    def logs(
        self,
        *,
        rank: int | Literal["all"] = 0,
        node: int | None = None,
        attempt: int | None = None,
        grep: str | None = None,
        since: str | None = None,
    ) -> str:
        """The log that `gofer logs` prints, so far: of one rank of the last attempt, else the service's own.

        With `rank="all"` and for a group, the lines of all logs, each with its rank or row. `grep` and
        `since` choose lines like the options of `gofer logs`. Bytes that are not UTF-8 are replaced.
        """
        with OpenProject(self._folder) as session:
            row = find.find(session, self.id)
            rows = ALL if row.kind == "group" else None
            wanted = choose_lines(
                row, rank=rank, node=node, attempt=attempt, grep=grep, since=since, rows=rows
            )
            data = b"".join(ChosenLines(session, row, wanted).read())
        return data.decode("utf-8", "replace")

    def follow(self, *, rank: int | Literal["all"] = 0) -> Iterator[str]:
        """Pieces of the log, as `gofer logs -f` prints them, until the run ends; of a group and with
        `rank="all"`, whole lines with their row or rank.
        """
        with OpenProject(self._folder) as session:
            row = find.find(session, self.id)
            for piece in ChosenLines(session, row, choose_lines(row, rank=rank)).follow():
                yield piece.decode("utf-8", "replace")

    def outputs(self) -> list[str]:
        """The paths of the files that the run has left so far, as `gofer ls RUN:` lists them.

        `gofer.open(f"{run.id}:PATH")` reads one. UsageError for a group: its rows have the files.
        """
        with OpenProject(self._folder) as session:
            found = view_of(session, self.id, "")
            return [] if found is None else [info.key for info in found[0].list()]

    def extract(self, folder: FolderPath, *, force: bool = False) -> Path:
        """Copy code, logs, outputs and record to a folder, like `gofer extract`; the folder.

        UsageError when the folder is not empty, unless `force`. StoreError when a file could not be copied;
        the rest is there then.
        """
        path = Path(folder)
        with OpenProject(self._folder) as session:
            done = extract(session, find.find(session, self.id), path, force=force)
        if done.failed:
            listed = ", ".join(f"{name} ({why})" for name, why in done.failed[:5])
            raise StoreError(f"{len(done.failed)} files of {self.id} could not be copied: {listed}")
        return path

    def abort(self, *, grace_s: float | None = None) -> Run:
        """Stop it, gracefully and then firmly, and wait until it has stopped."""
        with OpenProject(self._folder) as session:
            stop.abort(session, [self._refreshed(session)], grace_s=grace_s)
        return self

    def resubmit(
        self,
        *,
        target: str | None = None,
        same_code: bool = False,
        failed_only: bool = False,
        continues: bool = False,
    ) -> Run:
        """Submit it again, like `gofer resubmit`, with the present code unless `same_code`; the new run.

        An open run is stopped first. `failed_only` repeats only the rows of a group that have failed.
        With `continues` the new run starts with the files of the old one.
        """
        with OpenProject(self._folder) as session:
            row = find.find(session, self.id)
            (again,) = resubmit(
                session,
                [row],
                target=target,
                same_code=same_code,
                failed_only=failed_only,
                continues=continues,
            )
        return Run(again.new.id, folder=self._folder)

    def tag(self, tags: Mapping[str, str | None]) -> Run:
        """Set tags; None removes one."""
        words = [f"-{name}" if value is None else f"{name}={value}" for name, value in tags.items()]
        with OpenProject(self._folder) as session:
            tag(session, [find.find(session, self.id)], words)
        return self

    def rows(self) -> list[Run]:
        """The runs of a group, in order; empty for a single run."""
        with OpenProject(self._folder) as session:
            return [Run(row.id, folder=self._folder) for row in session.ledger.rows_of(self.id)]

    def _known_row(self) -> RunRow:
        with OpenProject(self._folder) as session:
            return session.ledger.get(self.id) or find.find(session, self.id)

    def _refreshed_row(self) -> RunRow:
        with OpenProject(self._folder) as session:
            return self._refreshed(session)

    def _refreshed(self, session: Session) -> RunRow:
        (row,) = refresh_runs(session, [find.find(session, self.id)])
        return row


class RunList(list[Run]):
    """Runs, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        rows = [run._known_row() for run in self[: display.MOST_LINES]]
        return display.as_table(rows, more=len(self) - len(rows))


def wait(
    runs: Iterable[Run],
    timeout_s: float | None = None,
    *,
    raise_on_failure: bool = False,
    folder: FolderPath | None = None,
) -> list[Run]:
    """Block until all these runs have ended; the runs. One question for each cluster at a time.

    TimedOut, which is also a TimeoutError, when the time is over before. With `raise_on_failure`, RunFailed
    for the first of them that did not succeed.
    """
    waited = list(runs)
    with OpenProject(folder) as session:
        try:
            rows = observe.wait(session, [run.id for run in waited], timeout_s=timeout_s)
        except Interrupted as late:
            raise TimedOut(late.message, hint="wait again, or without `timeout_s`") from None
        if raise_on_failure:
            for row in rows:
                check_succeeded(session, row)
    return waited


def runs(*filters: str, last: int | None = None, folder: FolderPath | None = None) -> list[Run]:
    """Runs of the ledger, newest first: `gofer.runs("state=failed", "age<7d")`.

    Asks the clusters first. A run of a cluster that is away is listed as it was last seen.
    """
    if not all(isinstance(one, str) for one in filters):
        raise UsageError("a filter is a text", hint='gofer.runs("state=failed", last=5)')
    with OpenProject(folder) as session:
        refresh_active(session)
        found = session.ledger.select(Query(filters=parse_filters(filters), limit=last))
        return RunList(Run(row.id, folder=folder) for row in found)
