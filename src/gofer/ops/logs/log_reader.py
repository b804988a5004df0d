"""Read the logs of one run: tail, read, follow and copy them. The command line and the Python API use it.

A run has logs in its store, one of each rank, once its agent has started them. Jobs that gofer did not start
have none, nor have runs whose image or node did not start. For these, the log of the service says why. The
secrets of a run that this machine can look up are masked in what is printed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.config.references import is_secret
from gofer.core import run_layout as names
from gofer.core.log_lines import last_states
from gofer.core.secrets import secret_files
from gofer.core.secrets.mask import NO_SECRETS, SecretMask
from gofer.core.secrets.secret_files import MOST_BYTES, values_of
from gofer.errors import BackendError, CredentialError, GoferError, UsageError
from gofer.model.run import RunRecord
from gofer.ops.logs.log_bytes import LocalLog, LogBytes, StoredLog, read_before, read_forward, read_tail
from gofer.ops.logs.log_copies import mirror
from gofer.ops.logs.log_follow import Follower
from gofer.ops.logs.log_sources import MAIN_LOG, LogChoice, ServiceLogs, StoredLogs
from gofer.ops.logs.log_times import LinesSince, read_from
from gofer.ops.messages import Warning
from gofer.ops.runs.run_folder import decode
from gofer.ops.submission.ledger_rows import is_adopted
from gofer.text import count_runs

if TYPE_CHECKING:
    from gofer.core.secrets.mask import SecretMask
    from gofer.ops.runs.live_status import LiveReport
    from gofer.ops.runs.run_folder import LogFile, RunFolder
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


# For a group, `fetch` copies the logs of at most this many failed rows: a person reads no more.
FETCHED_ROWS = 10
_MOST_FILES = 100


class LogCopies(NamedTuple):
    """Copies of logs on this machine: those of the ranks, and those of the service, the one to show first."""

    own: list[Path]
    service: list[Path]

    @property
    def paths(self) -> list[Path]:
        return self.own + self.service


class LogReader:
    """Reads the logs of one run or group; for one thread. Secrets of the run are masked in everything that
    it returns, but not in copies.

    The run's folder is listed once, when it is first needed, for everything except `follow`. A group has no
    log of its own: all methods but `files` and `fetch` raise UsageError.
    """

    def __init__(self, session: Session, row: RunRow, *, whole: bool = False) -> None:
        """`whole`: the caller will also read the other files of `folder`; see RunFolder."""
        self._session = session
        self._row = row
        self._whole = whole
        self._is_adopted = is_adopted(row)
        self._service = ServiceLogs(session, row)

    @cached_property
    def folder(self) -> RunFolder:
        """The folder of the run in its store. An adopted job has none."""
        return self._session.run_folder(self._row, whole=self._whole)

    @cached_property
    def _mask(self) -> SecretMask:
        return mask_of(self._session, self._row)

    @property
    def is_stored(self) -> bool:
        """Whether the run has a folder in a store. A job that gofer did not start has none."""
        return not self._is_adopted

    def files(self) -> list[LogFile]:
        """The logs in the store, sorted by attempt, node and rank, set-up first; none for a group."""
        return [] if self._row.kind == "group" or self._is_adopted else self.folder.logs

    def tail(self, choice: LogChoice = MAIN_LOG, *, lines: int, copies: Sequence[Path] = ()) -> bytes:
        """The last lines, as a terminal would show them; b"" when nothing was logged. UnknownName for a rank
        without a log.

        `copies` are those of the service's logs that were just fetched, so that the log of rank 0 is not
        fetched again.
        """
        end = self.stored_tail(choice, lines=lines)
        if end or not choice.may_be_the_services:
            return end
        if copies and choice.rank == 0:
            return self._tail_of(LocalLog(copies[0]), lines)
        return b"".join(self._from_service(choice, lambda log: iter([self._tail_of(log, lines)])))

    def stored_tail(self, choice: LogChoice = MAIN_LOG, *, lines: int) -> bytes:
        """Like `tail`, but only of a log in the store."""
        log = self._find(choice)
        return b"" if log is None else self._tail_of(log, lines)

    def service_tail(self, lines: int) -> tuple[str, ...]:
        """The end of the service's log as text; empty when there is none or the service does not answer."""
        data = b"".join(self._from_service(MAIN_LOG, lambda log: iter([self._tail_of(log, lines)])))
        return tuple(data.decode("utf-8", "replace").splitlines())

    def read(self, choice: LogChoice = MAIN_LOG, *, since: float | None = None) -> Iterator[bytes]:
        """The whole log as it is now, or the lines since a moment, in chunks. UnknownName for a rank without
        a log.
        """
        log, is_empty = self._find(choice), True
        start = 0 if log is None or since is None else self.lines_since(since).start_of(log)
        for piece in () if log is None else read_from(log, start, self._mask):
            is_empty = False
            yield piece
        if is_empty and not start and choice.may_be_the_services:
            yield from self._from_service(choice, self._all_of)

    def follow(
        self,
        choice: LogChoice = MAIN_LOG,
        *,
        lines: int | None,
        show_setup: Callable[[bytes], None] | None = None,
        report: LiveReport | None = None,
        since: float | None = None,
    ) -> Iterator[bytes]:
        """The last `lines` lines (None: all, from the first attempt, or those since a moment), then new
        output, until the run is over.

        Blocks. Continues with new attempts, with a message, unless one attempt was chosen. Each byte is
        returned once. `show_setup` gets the log of the set-up while it runs; if the set-up fails, the
        iterator returns only the rest of that log. `report` says what the run waits for. For a run without a
        log in the store, the service's log comes at the end.
        """
        if self._is_adopted:
            followed = self._service.followed(choice, report)
            yield from _noted(self._mask.stream(Follower(followed, lines=lines)), report)
            return
        self._refuse_group()
        is_empty = True

        def show(data: bytes) -> None:
            nonlocal is_empty
            is_empty = False
            if show_setup is not None:
                show_setup(data)

        stored = StoredLogs(self._session, self._row)
        followed = stored.followed(choice, self._mask, None if show_setup is None else show, report)
        if since is not None:
            followed = followed._replace(begin_at=self.lines_since(since).begin_at)
        for piece in _noted(self._mask.stream(Follower(followed, lines=lines)), report):
            is_empty = is_empty and not piece
            yield piece
        if is_empty and choice.may_be_the_services:
            yield from self._from_service(choice, self._all_of)

    def lines_since(self, since: float) -> LinesSince:
        """Where the lines since a moment begin in the logs of the run."""
        store = self._session.runs_in(self._row.store)
        return LinesSince(store, self._row, since, self._session.emit)

    def fetch(self, destination: Path) -> LogCopies:
        """Copy all logs, events and exit records to a folder, reading only what is new. Warns about a service
        that does not answer; OSError passes through.

        For a group, the logs of the first failed rows are copied, each to a folder named after its index.
        """
        own = [] if self._is_adopted else self._fetch_own(destination)
        try:
            return LogCopies(own, self._service.fetch(destination, remember=True))
        except (BackendError, CredentialError) as error:
            if self._is_adopted:
                raise
            self._session.emit(Warning(f"the service's own logs were not fetched: {error.message}"))
            return LogCopies(own, [])

    def _fetch_own(self, destination: Path) -> list[Path]:
        if self._row.kind == "group":
            failed = self._session.ledger.rows_of(self._row.id, {"failed", "lost"})[:FETCHED_ROWS]
            readers = ((one, LogReader(self._session, one)) for one in failed)
            return [
                path
                for one, reader in readers
                for path in reader._fetch_own(destination / str(one.row_index))
            ]
        logs = [
            path for path in fetch_records(self.folder, destination / "attempts") if path.suffix == ".log"
        ]
        return [path for path in logs if path.name != names.SETUP_LOG or path.stat().st_size]

    def _find(self, choice: LogChoice) -> StoredLog | None:
        self._refuse_group()
        return None if self._is_adopted else StoredLogs(self._session, self._row).find(choice, self.folder)

    def _refuse_group(self) -> None:
        row = self._row
        if row.kind == "group":
            raise UsageError(
                f"`{row.short_id}` is a group of {count_runs(row.size)} and has no log",
                hint=f"name one of its runs: `gofer logs {row.short_id}-0`",
            )

    def _tail_of(self, log: LogBytes, lines: int) -> bytes:
        return tail_of(log, lines, self._mask)

    def _all_of(self, log: LogBytes) -> Iterator[bytes]:
        return self._mask.stream(read_forward(log))

    def _from_service(
        self, choice: LogChoice, read: Callable[[LogBytes], Iterator[bytes]]
    ) -> Iterator[bytes]:
        """What `read` gives of the service's log. For gofer's own runs this log is only additional, so an
        error is a warning.
        """
        try:
            log = self._service.find(choice.rank)
            if log is not None:
                yield from read(log)
        except (BackendError, CredentialError) as error:
            if self._is_adopted:
                raise
            self._session.emit(Warning(f"the service's own logs cannot be read: {error.message}"))


def tail_of(log: LogBytes, lines: int, mask: SecretMask) -> bytes:
    """The last lines of a log as a terminal would show them, with secrets masked."""
    start, end = read_tail(log, lines)
    return last_states(mask.clean_after(read_before(log, start, mask.margin), end))


def _noted(pieces: Iterator[bytes], report: LiveReport | None) -> Iterator[bytes]:
    """The pieces. The report learns of each before it is shown, so that the live line is gone by then."""
    for piece in pieces:
        if piece and report is not None:
            report.note_output()
        yield piece


def fetch_records(folder: RunFolder, destination: Path) -> list[Path]:
    """Copy logs, events and exit records of all attempts, but not heartbeats; the paths of the copies."""
    prefix, listed = names.attempts_key(folder.run_id), folder.attempt_files
    return mirror(folder.store, prefix, destination, _is_record, listed=listed).paths


def _is_record(key: str) -> bool:
    return key.endswith(".log") or key.rpartition("/")[2] in (names.EXIT, names.EVENTS)


def mask_of(session: Session, row: RunRow) -> SecretMask:
    """A mask for the secret values of the job's `env`, such as that of `${secret:NAME}`, and of its files.

    A record holds references and paths, not values. So a value that this machine cannot look up, or that has
    changed, is not masked.
    """
    owner = session.ledger.get(row.group_id or row.id)
    if owner is None or (b"${" not in owner.record and b"secret_files" not in owner.record):
        return NO_SECRETS
    record = decode(owner.record, RunRecord)
    if record is None:
        return NO_SECRETS
    return SecretMask([*_variables(session, record), *_in_files(record)])


def _variables(session: Session, record: RunRecord) -> Iterator[str]:
    for name, text in record.job.env.items():
        with suppress(GoferError):
            if is_secret(name, text):
                yield session.settings.resolve(text)


def _in_files(record: RunRecord) -> Iterator[str]:
    """The values in the secret files of a run, as the files are in the project now."""
    origin = record.code
    if origin is None or not origin.secret_files:
        return
    found: dict[str, bytes] = {}
    for path in origin.secret_files[:_MOST_FILES]:
        with suppress(OSError, ValueError):
            found[path] = _read(os.path.join(origin.folder, path), MOST_BYTES)
    yield from values_of(secret_files.encode(found))


def _read(path: str, length: int) -> bytes:
    """The beginning of a file; OSError if it is not a regular file. Does not wait for a pipe."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is not a file")
        return file.read(length)
