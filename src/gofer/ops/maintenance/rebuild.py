"""Find the runs in the stores, each in the state that its folder proves: rebuild the ledger from them, or add
the runs of other machines to it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gofer.backends import registry
from gofer.core import private_folder
from gofer.core import run_layout as names
from gofer.core.states import State
from gofer.errors import GoferError, LedgerCorrupt
from gofer.model.ids import ALPHABET, short_id, split_row
from gofer.model.run import RunRecord
from gofer.ops.messages import Message, Warning
from gofer.ops.runs.run_folder import (
    ROW_TAGS,
    End,
    RunFolder,
    decode,
    read,
    read_lines,
    read_many,
)
from gofer.ops.runs.run_status import AttemptFacts, RunFacts, RunStatus, derive
from gofer.ops.submission.ledger_rows import ADOPTED, rows_of_record
from gofer.tracking.ledger import Ledger, RunRow
from gofer.tracking.query import Query
from gofer.tracking.references import steps_back, tidy

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.storage.base import Store


# The beginning of an id, a short id, or a row of an array.
_ID = re.compile(rf"r\d{{6}}-[0-9a-z-]*|[{ALPHABET}]{{4,6}}(-\d+)?")
# How long a submission may take between its line in the ledger and its record in the store.
_IN_FLIGHT_S = 3600.0


class Rebuilt(NamedTuple):
    """The result. `runs` counts runs and groups, `rows` the rows of groups.

    `set_aside` is the new path of a damaged ledger. `broken` are records that could not be read, and `unread`
    stores that could not be read. `kept` counts lines of the old ledger that no store could confirm or
    refute.
    """

    runs: int
    rows: int
    set_aside: Path | None
    broken: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    kept: int = 0


class RebuildScan(NamedTuple):
    """What was found in stores: the rows, the keys of broken records, and the URLs of the stores."""

    rows: list[RunRow]
    broken: list[str]
    urls: list[str]


def rebuild(session: Session) -> Rebuilt:
    """Read the stores of the settings, of their targets and of the old ledger, and replace the ledger in one
    step. Blocks.

    A damaged ledger is set aside first. Lines whose store could not be read are kept, and so are lines that
    another command writes in the meantime. This does not use `session.ledger`, because opening a damaged
    ledger calls this function.
    """
    path = session.paths.ledger_file
    with _alone(path):
        ledger, set_aside = _open_or_set_aside(path)
        with ledger:
            _keep_definitions(ledger, set_aside)
            old = {row.id: row for row in _all_rows(ledger)}
            named = {row.store for row in old.values()} | _named_stores(set_aside)
            found, unread = _read_stores(session, sorted(named))
            known = {row.id for row in found.rows}
            kept = [row for row in old.values() if row.id not in known and _is_kept(row, found.urls)]
            origins = old or _origins(set_aside)
            rows = [_with_origin(row, origins) for row in found.rows] + kept
            ledger.replace_all(rows, since=old)
    whole = sum(row.group_id is None for row in rows)
    return Rebuilt(whole, len(rows) - whole, set_aside, tuple(found.broken), tuple(unread), len(kept))


def find_runs(store: Store, choose: Callable[[list[str]], list[str]] | None = None) -> RebuildScan:
    """Every run in the store, as rows of a ledger; StoreError when the store cannot be read.

    `choose` gets the ids of runs and groups, oldest first, and returns those that are wanted.
    """
    folders = set(store.list_folders(names.RUNS))
    owners = sorted(name for name in folders if split_row(name)[1] is None)
    if choose is not None:
        owners = choose(owners)
    found = RebuildScan([], [], [store.url])
    records = read_many(store, [names.record_key(owner) for owner in owners])
    for owner, data in zip(owners, records, strict=True):
        if data is None:
            # a folder without a record belongs to a submission that was interrupted before its record
            continue
        record = decode(data, RunRecord)
        if record is None or record.id != owner:
            found.broken.append(f"{store.url}/{names.record_key(owner)}")
            continue
        found.rows.extend(_rebuilt_rows(store, record, data, folders))
    return found


def replace_damaged(session: Session, error: LedgerCorrupt) -> Ledger:
    """Set the damaged ledger aside, rebuild it, and tell the person; the new ledger, open."""
    session.emit(Message(f"{error.message}; rebuilding it from the stores"))
    done = rebuild(session)
    aside = f"; the damaged one is {done.set_aside}" if done.set_aside else ""
    session.emit(Message(f"the ledger was rebuilt with {done.runs} runs{aside}"))
    for name in done.unread:
        session.emit(Message(f"the store {name} could not be read; `gofer ledger rebuild` when it is back"))
    for key in done.broken:
        session.emit(Message(f"{key} is not a record of a run and was left out"))
    return Ledger.open(session.paths.ledger_file)


def status_of(store: Store, row: RunRow, record: RunRecord) -> RunStatus:
    """The status of one run, from its folder alone; see `statuses_of`."""
    return statuses_of(store, [row], record)[row.id]


def statuses_of(
    store: Store, rows: Sequence[RunRow], record: RunRecord, *, started: Collection[str] | None = None
) -> dict[str, RunStatus]:
    """The status of the runs of one record, by id, from their folders alone. A group's list of ends is read
    once.

    `started` are the runs that have a folder, if that is known; the others are not read.
    """
    ends = {one.id: one for one in read_lines(read(store, names.ends_key(record.id)) or b"", End)}
    found = {}
    for row in rows:
        looks_inside = row.id not in ends and (started is None or row.id in started)
        if looks_inside and row.id != record.id:
            # Rows that end on different machines cannot write to one list.
            own = read_lines(read(store, names.ends_key(row.id)) or b"", End)
            ends.update((one.id, one) for one in own if one.id == row.id)
            looks_inside = row.id not in ends
        attempts = _attempts(RunFolder(store, row.id)) if looks_inside else ()
        policy = record.job
        facts = RunFacts(record.layout.nodes, policy.retries, policy.retry_on, ends.get(row.id), attempts)
        found[row.id] = derive(facts)
    return found


def _rebuilt_rows(store: Store, record: RunRecord, data: bytes, started: Collection[str]) -> Iterator[RunRow]:
    # Only the machine that recorded a run may repair its submission. The recording process has ended by now.
    submitter = "@" + record.recorder
    rows = rows_of_record(record, data=data, store=store.url, submitter=submitter)
    runs = [row for row in rows if row.kind == "run"]
    statuses = statuses_of(store, runs, record, started=started)
    tags = _read_tags(store, record)
    for row in rows:
        tagged = row._replace(tags=tags[row.row_index]) if row.row_index in tags else row
        yield tagged if row.kind == "group" else _placed(tagged, statuses[row.id])


def _read_tags(store: Store, record: RunRecord) -> dict[int | None, dict[str, str]]:
    """Tags that were changed after the submission: those of the group under None, those of rows under their
    index.
    """
    own = decode(read(store, names.tags_key(record.id)), dict[str, str])
    found: dict[int | None, dict[str, str]] = {} if own is None else {None: own}
    if record.array is not None:
        rows = decode(read(store, f"{names.run_key(record.id)}/{ROW_TAGS}"), dict[int, dict[str, str]])
        found.update((index, tags) for index, tags in (rows or {}).items())
    return found


def _placed(row: RunRow, status: RunStatus) -> RunRow:
    return row._replace(**{**status._asdict(), "attempts": list(status.attempts)})


def _attempts(folder: RunFolder) -> tuple[AttemptFacts, ...]:
    """The facts of each attempt, for a run that has no line of its end."""
    return tuple(_attempt(folder, number) for number in folder.attempts)


def _attempt(folder: RunFolder, number: int) -> AttemptFacts:
    exits = folder.exit_records(number)
    events = folder.read_nodes(number, names.EVENTS).values()
    starts = [one.at for data in events for one in read_lines(data, _Event) if one.event == "started"]
    logs = any(log.attempt == number and log.rank is not None for log in folder.logs)
    return AttemptFacts(number, tuple(exits.values()), min(starts, default=None), logs)


class _Event(msgspec.Struct, frozen=True):
    at: float
    event: str


def _read_stores(session: Session, named: Sequence[str]) -> tuple[RebuildScan, list[str]]:
    """What all stores hold, and the stores that could not be read. A run in two stores counts once."""
    rows: dict[str, RunRow] = {}
    found, unread = RebuildScan([], [], []), list[str]()
    for name in [*session.settings.store_names, *named, *_on_machines(session)]:
        try:
            store = session.runs_in(name)
            if store.url in found.urls:
                continue
            one = find_runs(store)
        except GoferError:
            unread.append(name)
            continue
        found.broken.extend(one.broken)
        found.urls.extend(one.urls)
        rows = {row.id: row for row in one.rows} | rows
    return found._replace(rows=list(rows.values())), unread


def _all_rows(ledger: Ledger) -> list[RunRow]:
    return ledger.select(Query(include_rows=True, records=True))


def _is_kept(row: RunRow, urls: Sequence[str]) -> bool:
    """Whether a line that is in no store is kept: its store was not read, the run is just being submitted, or
    gofer did not start the job, so that it is never in a store.
    """
    is_new = row.state == State.PENDING and time.time() - row.submitted_at < _IN_FLIGHT_S
    return is_new or row.store not in urls or row.submitter == ADOPTED


class _Origin(NamedTuple):
    """Facts about a run that only the ledger has: see `ops.runs.run_origin`, and `ops.maintenance.repair` for
    the submitter.
    """

    submitter: str
    project: str
    definition: str


def _with_origin(row: RunRow, old: Mapping[str, RunRow | _Origin]) -> RunRow:
    if row.id not in old:
        return row
    held = old[row.id]
    return row._replace(submitter=held.submitter, project=held.project, definition=held.definition)


def _open_or_set_aside(path: Path) -> tuple[Ledger, Path | None]:
    try:
        ledger = Ledger.open(path)
    except LedgerCorrupt:
        return _fresh(path)
    try:
        ledger.check()
    except LedgerCorrupt:
        ledger.close()
        return _fresh(path)
    return ledger, None


def _fresh(path: Path) -> tuple[Ledger, Path]:
    """Rename the damaged file and its companion files, then open a new ledger."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    for ending in ("-wal", "-shm", ""):
        old = path.with_name(path.name + ending)
        if old.exists():
            old.rename(aside.with_name(aside.name + ending))
    return Ledger.open(path), aside


def _named_stores(damaged: Path | None) -> set[str]:
    """The stores that a damaged ledger still names. Stores of other projects are not in the settings here."""
    return {str(line[0]) for line in _salvaged(damaged, "SELECT DISTINCT store FROM runs")}


def _keep_definitions(ledger: Ledger, damaged: Path | None) -> None:
    """Copy the definitions of targets from a damaged ledger, before the stores are read: some stores need
    them.
    """
    for store, data in _salvaged(damaged, "SELECT store, data FROM definitions"):
        ledger.define(str(store), str(data))


def _origins(damaged: Path | None) -> dict[str, _Origin]:
    lines = _salvaged(damaged, "SELECT id, submitter, project, definition FROM runs")
    return {str(line[0]): _Origin(*map(str, line[1:])) for line in lines}


def _salvaged(damaged: Path | None, sql: str) -> list[tuple[object, ...]]:
    """Rows that can still be read from a damaged ledger; empty when none is damaged."""
    import sqlite3

    found: list[tuple[object, ...]] = []
    if damaged is None:
        return found
    try:
        connection = sqlite3.connect(f"{damaged.as_uri()}?mode=ro", uri=True)
        try:
            found.extend(connection.execute(sql))
        finally:
            connection.close()
    except sqlite3.Error:
        pass  # what was read before the damage counts
    return found


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Allow one rebuild at a time. Of two at once, the second would set the new ledger of the first aside."""
    import fcntl

    private_folder.make_missing(path.parent)
    with open(path.with_name(f"{path.name}.rebuild"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def discover(session: Session, reference: str | None = None) -> int:
    """Add runs that are in a store but not in the ledger: all, or those that `reference` may mean.

    Returns how many runs and groups were added. Warns about stores that cannot be read. Stores that targets
    have on machines of their own are read for a reference only if it can be an id.
    """
    word = None if reference is None else tidy(reference)
    added = 0
    for store in _stores(session, on_machines=word is None or _ID.fullmatch(word) is not None):
        try:
            found = find_runs(store, _choice(session, word))
        except GoferError as error:
            session.emit(Warning(f"{error.message}"))
            continue
        for key in found.broken:
            session.emit(Warning(f"the record {key} cannot be read and was left out"))
        rows = [row for row in found.rows if session.ledger.get(row.id) is None]
        session.ledger.insert(rows)
        added += sum(row.group_id is None for row in rows)
    return added


def _stores(session: Session, *, on_machines: bool = True) -> Iterator[Store]:
    """Each store of the settings once, and with `on_machines` those of targets on machines of their own.
    Warns about stores that cannot be opened.
    """
    seen = set()
    machines = _on_machines(session) if on_machines else []
    for name in [*session.settings.store_names, *_imported(session), *machines]:
        try:
            store = session.runs_in(name)
        except GoferError as error:
            session.emit(Warning(f"{error.message}"))
            continue
        if store.url not in seen:
            seen.add(store.url)
            yield store


def _imported(session: Session) -> list[str]:
    """The stores of targets in other tools' files. Files that cannot be read are skipped."""
    found = []
    for name in session.settings.provider.names if session.settings.provider else ():
        with suppress(GoferError):
            found.append(session.settings.target(name).store)
    return [name for name in dict.fromkeys(found) if name not in session.settings.store_names]


def _on_machines(session: Session) -> list[str]:
    """The URLs of the stores of targets that are reached over SSH: such a store is on the machine. Targets
    that cannot be read are skipped.
    """
    found = []
    for name in session.settings.target_names:
        with suppress(GoferError):
            target = session.settings.target(name)
            for machine in registry.capabilities_of(target).machines or ("",):
                if registry.find(target.kind).login(target.options, machine) is not None:
                    found.append(session.store_url_of(name, machine))
    return list(dict.fromkeys(found))


def _choice(session: Session, word: str | None) -> Callable[[list[str]], list[str]]:
    def choose(owners: list[str]) -> list[str]:
        unknown = [owner for owner in owners if session.ledger.get(owner) is None]
        if word is None:
            return unknown
        back = steps_back(word)
        if back is not None:
            return unknown[-1 - back :]  # ids begin with the time
        head, _, index = word.rpartition("-")
        parts = (word, head) if head and index.isdecimal() else (word,)  # `k9qd4x-17` is a row of `k9qd4x`
        return [
            one
            for one in unknown
            if one.startswith(word) or one.endswith(parts) or short_id(one).startswith(parts)
        ]

    return choose
