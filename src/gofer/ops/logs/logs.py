"""The logs of a run in the store: list, tail, read, follow and copy them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.core import run_layout as names
from gofer.errors import BackendError, CredentialError, StoreError, UnknownName, UsageError
from gofer.model.ids import short_id
from gofer.ops.logs.log_bytes import read_before, read_forward, read_tail
from gofer.ops.runs.run_secrets import mask_of

if TYPE_CHECKING:
    from gofer.core.secrets.mask import SecretMask
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

# For a group, `fetch` copies the logs of at most this many failed rows: a person reads no more.
FETCHED_ROWS = 10
_FETCHED = (names.EXIT, names.EVENTS)
_SOONEST_ASK_S, _LATEST_ASK_S = 0.25, 30.0


class LogFile(NamedTuple):
    """One log in the store. `kind` is `rank` or `setup`; a set-up log belongs to a node and has no rank."""

    key: str
    node: int
    rank: int | None
    attempt: int
    size: int
    kind: str


def log_files(session: Session, row: RunRow) -> list[LogFile]:
    """The existing logs, sorted by attempt, node and rank, set-up first; none for a group."""
    return [] if row.kind == "group" else list_logs(session.runs_in(row.store), row.id)


def list_logs(store: Store, run_id: str, attempt: int | None = None) -> list[LogFile]:
    """The logs in one run's folder, or of one attempt, in order. Empty set-up logs are left out."""
    prefix = names.attempts_key(run_id) + ("" if attempt is None else f"/{attempt}")
    found = []
    for info in store.list(prefix):
        place = names.parse_log_key(info.key)
        if place is not None and (info.size or place[2] is not None):
            number, node, rank = place
            found.append(
                LogFile(info.key, node, rank, number, info.size, "setup" if rank is None else "rank")
            )
    return sorted(found, key=lambda log: (log.attempt, log.node, -1 if log.rank is None else log.rank))


def choose(
    run_id: str,
    files: Sequence[LogFile],
    *,
    rank: int = 0,
    node: int | None = None,
    attempt: int | None = None,
) -> LogFile | None:
    """The requested log; None while there are none; UnknownName when it is not among `files`.

    Without `attempt`, the last attempt is used. Rank 0 on another node means the first rank of that node. For
    an attempt that never started the command, this is the log of its set-up.
    """
    if not files:
        return None
    attempt = max(log.attempt for log in files) if attempt is None else attempt
    here = [log for log in files if log.attempt == attempt and node in (None, log.node)]
    ranks = [log for log in here if log.rank is not None]
    if here and not ranks:
        return here[0]
    for log in ranks:
        if log.rank == rank or (rank == 0 and node is not None):
            return log
    where = f"attempt {attempt}" + ("" if node is None else f" on node {node}")
    known = ", ".join(f"{log.attempt}/{log.node}/{log.rank}" for log in files if log.rank is not None)
    raise UnknownName(
        f"run `{short_id(run_id)}` has no log of rank {rank} in {where}",
        hint=f"attempt/node/rank with a log: {known[:200] or 'none'}",
    )


def tail(
    session: Session,
    row: RunRow,
    *,
    lines: int,
    rank: int = 0,
    node: int | None = None,
    attempt: int | None = None,
) -> bytes:
    """The last lines; b"" when nothing was logged yet. `choose` decides which log.

    Secrets of the run are masked, as in `read` and `follow`.
    """
    log = _chosen(session, row, rank, node, attempt)
    if log is None:
        return b""
    store, mask = session.runs_in(row.store), mask_of(session, row)
    start, end = read_tail(store, log.key, lines)
    return mask.clean_after(read_before(store, log.key, start, mask.margin), end)


def read(
    session: Session, row: RunRow, *, rank: int = 0, node: int | None = None, attempt: int | None = None
) -> Iterator[bytes]:
    """The whole log in chunks. Errors about the choice of the log are raised by the call, not by the
    iterator.
    """
    log = _chosen(session, row, rank, node, attempt)
    if log is None:
        return iter(())
    return mask_of(session, row).stream(read_forward(session.runs_in(row.store), log.key))


def follow(
    session: Session,
    row: RunRow,
    *,
    rank: int = 0,
    node: int | None = None,
    attempt: int | None = None,
    lines: int | None = 10,
    show_setup: Callable[[bytes], None] | None = None,
) -> Iterator[bytes]:
    """The last `lines` lines (None: all, from the first attempt), then new output, until the run is over.

    Blocks. Continues with new attempts and says so, unless one attempt was requested. Each byte is returned
    once. `show_setup` gets the log of the set-up while it runs; if the set-up fails, the iterator returns
    only the rest of that log.
    """
    from gofer.ops.logs.log_follow import Followed, Follower, SetupView

    _refuse_group(row)
    store = session.runs_in(row.store)

    def locate(number: int, is_over: bool) -> str | None:
        files = [log for log in list_logs(store, row.id, number) if node in (None, log.node)]
        is_there = any(log.rank == rank or (node and rank == 0 and log.kind == "rank") for log in files)
        log = choose(row.id, files, rank=rank, node=node, attempt=number) if is_over or is_there else None
        return None if log is None else log.key

    def locate_setup(number: int) -> str | None:
        files = list_logs(store, row.id, number)
        return next((log.key for log in files if log.kind == "setup" and log.node == (node or 0)), None)

    watch = _EndWatch(session, store, row)
    mask = mask_of(session, row)
    view = SetupView(locate_setup, _masked(mask, show_setup)) if show_setup else None
    followed = Followed(store, row.id, locate, watch.is_over, session.say, attempt, view)
    return mask.stream(Follower(followed, lines=lines))


def fetch(session: Session, row: RunRow, folder: Path) -> list[Path]:
    """Copy logs, events and exit records to `folder`, reading only what is new; the paths of the logs.

    For a group, the logs of the first failed rows are copied, each to a folder named after its index.
    """
    from gofer.ops.logs.mirror import mirror

    if row.kind == "group":
        failed = session.ledger.rows_of(row.id, {"failed", "lost"})[:FETCHED_ROWS]
        return [path for one in failed for path in fetch(session, one, folder / str(one.row_index))]
    prefix = names.attempts_key(row.id)
    copied = mirror(session.runs_in(row.store), prefix, folder / "attempts", is_record)
    logs = [path for path in copied.paths if path.suffix == ".log"]
    return [path for path in logs if path.name != names.SETUP_LOG or path.stat().st_size]


def is_record(key: str) -> bool:
    """Whether an object of an attempt is copied: logs, events and exit records, but not heartbeats."""
    return key.endswith(".log") or key.rpartition("/")[2] in _FETCHED


def _chosen(
    session: Session, row: RunRow, rank: int, node: int | None, attempt: int | None
) -> LogFile | None:
    _refuse_group(row)
    return choose(row.id, log_files(session, row), rank=rank, node=node, attempt=attempt)


def _refuse_group(row: RunRow) -> None:
    if row.kind == "group":
        raise UsageError(
            f"`{row.short_id}` is a group of {row.size} runs and has no log of its own",
            hint=f"name one of its runs: `gofer logs {row.short_id}-0`",
        )


def _masked(mask: SecretMask, show: Callable[[bytes], None]) -> Callable[[bytes, bool], None]:
    """A function that shows pieces of a log with secrets masked."""
    from gofer.core.secrets.mask import MaskedPieces

    pieces = MaskedPieces(mask)

    def show_masked(data: bytes, is_last: bool) -> None:
        known = pieces.add(data) + (pieces.rest() if is_last else b"")
        if known:
            show(known)

    return show_masked


class _EndWatch:
    """Finds out whether a run is over, without asking its cluster each time.

    The cluster is asked when the run's folder changes (an exit record, a new line of ends), and otherwise at
    growing intervals. A cluster that cannot be reached does not end the wait.
    """

    def __init__(self, session: Session, store: Store, row: RunRow) -> None:
        self._session, self._store, self._row = session, store, row
        self._ends_key = names.ends_key(row.group_id or row.id)
        self._sign: object = None
        self._said = ""
        self._wait_s = _SOONEST_ASK_S
        self._next_ask = 0.0

    def is_over(self, attempt: int) -> bool:
        if self._row.is_final:
            return True
        sign = self._look(attempt)
        if sign != self._sign:
            self._sign, self._wait_s, self._next_ask = sign, _SOONEST_ASK_S, 0.0
        now = time.monotonic()
        if now >= self._next_ask:
            self._ask()
            self._next_ask = now + self._wait_s
            self._wait_s = min(self._wait_s * 2, _LATEST_ASK_S)
        return self._row.is_final

    def _look(self, attempt: int) -> object:
        ends = self._store.head(self._ends_key)
        node = names.node_key(self._row.id, attempt, 0)
        return ends and ends.size, self._store.head(f"{node}/{names.EXIT}") is not None

    def _ask(self) -> None:
        from gofer.ops.runs.observe import refresh

        try:
            refresh(self._session, [self._row])
        except (BackendError, StoreError, CredentialError) as error:
            if error.message != self._said:
                self._session.say(f"{error.message}; still following")
            self._said = error.message
        self._row = self._session.ledger.get(self._row.id) or self._row
