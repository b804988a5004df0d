"""The logs of a run: which there are, their last lines, the whole, as they grow, and copies of them here."""

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

# Rows of a group whose logs `fetch` brings: the failed ones, and no more than a person reads.
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
    """The logs there are now, by attempt, node and rank, set-up first; none for a group."""
    return [] if row.kind == "group" else list_logs(session.runs_in(row.store), row.id)


def list_logs(store: Store, run_id: str, attempt: int | None = None) -> list[LogFile]:
    """The logs in one run's folder, or of one attempt in it, in order; not of a set-up that says nothing."""
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
    """The one log that was asked for; None while there are none; UnknownName when it is not among them.

    Without `attempt` the last one is meant. Rank 0 on another node than its own means that node's first rank.
    An attempt that never started the command has only the log of its set-up, and that is given.
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
    """The last lines, read from the end; b"" when nothing was logged yet. See `choose` for which log.

    Secrets of the run are masked, here and in `read` and `follow`.
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
    """The whole log in chunks, to its end as it is when reached. The errors come at the call, not later."""
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
    """The last `lines` lines (None: all, from the first attempt), then what comes, until the run is over.

    Blocks. Continues with new attempts and says so, unless one was asked for. Each byte comes once.
    `show_setup` gets the log of a set-up while it runs; of a set-up that failed, the iterator then gives only
    the rest.
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
    """Bring logs, events and exit records to `folder`, reading only what is new there; the paths of the logs.

    Of a group, the first failed rows are fetched, each to a folder named by its index.
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
    """Whether an object of an attempt is worth a copy: logs, events and exit records, not heartbeats."""
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
    """Shows pieces of a log without the secrets in them."""
    from gofer.core.secrets.mask import MaskedPieces

    pieces = MaskedPieces(mask)

    def show_masked(data: bytes, is_last: bool) -> None:
        known = pieces.add(data) + (pieces.rest() if is_last else b"")
        if known:
            show(known)

    return show_masked


class _EndWatch:
    """Whether a run is over, without asking its cluster at every look.

    The cluster is asked when the run's folder shows a sign (an exit record, a new line of ends), and else
    ever more rarely. A cluster that cannot be reached says nothing about the end.
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
