"""The two sources of a run's logs: its folder in the store, and the service that runs it.

Each finds the log that a person chooses, and says how it is followed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends.registry import runs_here
from gofer.core import run_layout as names
from gofer.core.secrets.mask import MaskedPieces
from gofer.errors import BackendError, CredentialError, GoferError, StoreError, UnknownName
from gofer.model.ids import short_id
from gofer.ops.logs.labelled_lines import LogLines
from gofer.ops.logs.log_bytes import ServiceLog, StoredLog
from gofer.ops.logs.log_copies import copy_service_logs
from gofer.ops.logs.log_follow import SERVICE, Followed, OutageNotice, SetupView
from gofer.ops.runs.observe import refresh
from gofer.ops.runs.run_folder import attempt_numbers, list_logs

if TYPE_CHECKING:
    from gofer.backends.base import LogService
    from gofer.core.secrets.mask import SecretMask
    from gofer.ops.runs.live_status import LiveReport
    from gofer.ops.runs.run_folder import LogFile, RunFolder
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.25, 30.0
_NUMBER = re.compile(r"(\d+)\D*$")


class LogChoice(NamedTuple):
    """The log that a person wants. None means the last attempt, or any node."""

    rank: int = 0
    node: int | None = None
    attempt: int | None = None

    @property
    def may_be_the_services(self) -> bool:
        """Whether the log of the service can be shown instead: it distinguishes ranks, but not nodes and
        attempts.
        """
        return self.node is None and self.attempt is None


# The log of rank 0 in the last attempt.
MAIN_LOG = LogChoice()


class StoredLogs:
    """The logs of a run's ranks and set-ups in its folder. StoreError passes through."""

    def __init__(self, session: Session, row: RunRow) -> None:
        self._session = session
        self._row = row

    def find(self, choice: LogChoice, folder: RunFolder) -> StoredLog | None:
        """The chosen log; None while there are none; UnknownName when it is not among them."""
        log = choose(self._row.id, folder.logs, choice)
        return None if log is None else StoredLog(folder.store, log.key)

    def followed(
        self,
        choice: LogChoice,
        mask: SecretMask,
        show_setup: Callable[[bytes], None] | None,
        report: LiveReport | None = None,
    ) -> Followed:
        """How the log is followed. `show_setup` gets the labelled lines of the set-up while it runs, and
        `report` the run whenever the log is looked at.
        """
        store, run_id = self._session.runs_in(self._row.store), self._row.id
        rank, node = choice.rank, choice.node

        def locate(number: int, is_over: bool) -> StoredLog | None:
            files = [log for log in list_logs(store, run_id, number) if node in (None, log.node)]
            is_there = any(log.rank == rank or (node and rank == 0 and log.kind == "rank") for log in files)
            is_known = is_over or is_there
            log = choose(run_id, files, choice._replace(attempt=number)) if is_known else None
            return None if log is None else StoredLog(store, log.key)

        notice = OutageNotice(self._session.emit, "still following")
        watch = _FolderWatch(_RunWatch(self._session, self._row, notice, report), store)
        view = self._setup_in(store, mask, show_setup, node or 0) if show_setup else None

        def attempts() -> Sequence[int]:
            return attempt_numbers(store, run_id)

        return Followed(attempts, locate, watch.is_over, self._session.emit, choice.attempt, view)

    def setup_view(self, mask: SecretMask, show: Callable[[bytes], None], *, node: int = 0) -> SetupView:
        """The set-up logs of a node; `show` gets their lines, masked and labelled."""
        return self._setup_in(self._session.runs_in(self._row.store), mask, show, node)

    def _setup_in(
        self, store: Store, mask: SecretMask, show: Callable[[bytes], None], node: int
    ) -> SetupView:
        """As `setup_view`. The logs of one store are equal only by the same object of the store."""
        run_id = self._row.id

        def locate(attempt: int) -> StoredLog | None:
            setups = [log for log in list_logs(store, run_id, attempt) if log.kind == "setup"]
            return next((StoredLog(store, log.key) for log in setups if log.node == node), None)

        return SetupView(locate, _labelled(mask, show))


def choose(run_id: str, files: Sequence[LogFile], choice: LogChoice) -> LogFile | None:
    """The chosen log; None while there are none; UnknownName when it is not among `files`.

    Without an attempt, the last one is used. Rank 0 on another node means the first rank of that node. For an
    attempt that never started the command, this is the log of its set-up.
    """
    if not files:
        return None
    rank, node, _ = choice
    attempt = max(log.attempt for log in files) if choice.attempt is None else choice.attempt
    near = [log for log in files if log.attempt == attempt and node in (None, log.node)]
    ranks = [log for log in near if log.rank is not None]
    if near and not ranks:
        return near[0]
    for log in ranks:
        if log.rank == rank or (rank == 0 and node is not None):
            return log
    where = f"attempt {attempt}" + ("" if node is None else f" on node {node}")
    known = ", ".join(f"{log.attempt}/{log.node}/{log.rank}" for log in files if log.rank is not None)
    raise UnknownName(
        f"run `{short_id(run_id)}` has no log of rank {rank} in {where}",
        hint=f"attempt/node/rank with a log: {known[:200] or 'none'}",
    )


class ServiceLogs:
    """The logs that a service keeps of a run, under names of its own. BackendError passes through."""

    def __init__(self, session: Session, row: RunRow) -> None:
        self._session = session
        self._row = row

    @property
    def service(self) -> LogService | None:
        """The backend that has service logs of this run; None when there is none, and for a group."""
        if self._row.kind == "group" or runs_here(self._row.backend):
            return None  # a process of this machine has only the log in its folder
        try:
            backend = self._session.backend_of(self._row)
        except GoferError:
            return None
        return backend.log_service()

    def find(self, rank: int) -> ServiceLog | None:
        """The log to show first, or that of a rank; None when there is none."""
        service = self.service
        name = None if service is None else choose_name(service.native_logs(self._row.id), rank)
        return None if service is None or name is None else ServiceLog(service, self._row.id, name)

    def followed(self, choice: LogChoice, report: LiveReport | None = None) -> Followed:
        """How the log is followed. The service is called at growing intervals while nothing is new. A service
        that cannot be reached is reported once, and called again. `report` gets the run after each call.
        """
        notice = OutageNotice(self._session.emit, SERVICE.words)
        watch = _RunWatch(self._session, self._row, notice, report)
        return Followed(
            lambda: [1],
            lambda attempt, is_over: self.find(choice.rank),
            lambda attempt: watch.ask_and_report(),
            self._session.emit,
            patience=SERVICE,
            is_fixed=False,  # the service may later have a log that is more useful
            notice=notice,
        )

    def fetch(self, destination: Path, *, remember: bool = False) -> list[Path]:
        """Copy the logs to a folder, under the service's names; the paths, the log to show first.

        Only new bytes are read, from all files in parallel. With `remember`, the service is not called again
        once the logs of an ended run were copied. Empty when no service has logs. OSError passes through too;
        what was copied stays.
        """
        service = self.service
        if service is None:
            return []
        return copy_service_logs(service, self._row, destination, remember=remember)


def choose_name(names: Sequence[str], rank: int) -> str | None:
    """The log to show first; for another rank than 0, the log with the same name and that number. None when
    there is none.
    """
    first = next(iter(names), None)
    if first is None or rank == 0:
        return first
    stem = _NUMBER.sub("", first)
    near = [name for name in names if _NUMBER.sub("", name) == stem]
    return next((name for name in near if (found := _NUMBER.search(name)) and int(found[1]) == rank), None)


class _RunWatch:
    """Asks the cluster whether a run is over. A cluster that cannot be reached does not end the wait."""

    def __init__(
        self, session: Session, row: RunRow, notice: OutageNotice, report: LiveReport | None = None
    ) -> None:
        self._session = session
        self._notice = notice
        self._report = report
        self.row = row

    def ask(self) -> bool:
        try:
            refresh(self._session, [self.row])
        except (BackendError, StoreError, CredentialError) as error:
            self._notice.report(error)
        self.row = self._session.ledger.get(self.row.id) or self.row
        return self.row.is_final

    def ask_and_report(self) -> bool:
        is_over = self.ask()
        self.report()
        return is_over

    def report(self) -> None:
        """Report the run as it was at the last answer."""
        if self._report is not None:
            self._report.report([self.row])


class _FolderWatch:
    """Finds out whether a run is over without asking its cluster each time.

    The cluster is called when the run's folder changes (an exit record, a new line of ends), and otherwise at
    growing intervals.
    """

    def __init__(self, run: _RunWatch, store: Store) -> None:
        self._run = run
        self._store = store
        self._ends_key = names.ends_key(run.row.group_id or run.row.id)
        self._signs: object = None
        self._wait_s = _SHORTEST_WAIT_S
        self._next_ask = 0.0

    def is_over(self, attempt: int) -> bool:
        if self._run.row.is_final:
            return True
        signs = self._read_signs(attempt)
        if signs != self._signs:
            self._signs, self._wait_s, self._next_ask = signs, _SHORTEST_WAIT_S, 0.0
        now = time.monotonic()
        if now >= self._next_ask:
            self._run.ask()
            self._next_ask = now + self._wait_s
            self._wait_s = min(self._wait_s * 2, _LONGEST_WAIT_S)
        self._run.report()
        return self._run.row.is_final

    def _read_signs(self, attempt: int) -> object:
        """What changes in the folder when an attempt ends."""
        ends = self._store.head(self._ends_key)
        node = names.node_key(self._run.row.id, attempt, 0)
        return ends and ends.size, self._store.head(f"{node}/{names.EXIT}") is not None


def _labelled(mask: SecretMask, show: Callable[[bytes], None]) -> Callable[[bytes, bool], None]:
    """A function that shows pieces of a set-up log as labelled lines with secrets masked."""
    pieces, lines = MaskedPieces(mask), LogLines("setup")

    def show_labelled(data: bytes, is_last: bool) -> None:
        shown = lines.add(pieces.add(data) + (pieces.rest() if is_last else b""))
        shown += lines.rest() if is_last else b""
        if shown:
            show(shown)

    return show_labelled
