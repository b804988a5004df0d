"""The ledger: what this user has submitted, and the last known state of it. One SQLite file for many
processes.

Every command that reads runs loads this module, so it imports only sqlite3 and json, no msgspec and no model;
other imports are in the functions that need them. A Ledger belongs to the thread that opened it. Every write
is one transaction: a process killed in the middle leaves the file unchanged. Errors are of the LedgerError
family; LedgerCorrupt means that the file must be set aside and rebuilt from the stores.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from gofer.errors import LedgerCorrupt, LedgerError, UnknownName
from gofer.tracking import changes, references
from gofer.tracking.connection import connect, explained, transaction
from gofer.tracking.query import Query
from gofer.tracking.rows import (
    ACTIVE,
    SELECT_BARE,
    SELECT_FULL,
    Event,
    RunRow,
    decode,
    decode_event,
    marks,
    plain,
    to_json,
)
from gofer.tracking.sql import (
    COMMAND_FUNCTION,
    PATTERN_FUNCTION,
    Statement,
    command_text,
    compile_count,
    compile_ids,
    compile_select,
    pattern_function,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from gofer.tracking.changes import Observed

__all__ = ["Event", "Ledger", "RunRow"]

_T = TypeVar("_T")
# 500 lines are a few megabytes. SQLite takes at least 999 values in a statement.
_BATCH = 500


class Ledger:
    """Open with `Ledger.open`; close it, or use it as a context. All methods block."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path) -> Ledger:
        """The ledger at `path`. Created when absent or empty, migrated when it has an older schema.

        Raises LedgerCorrupt when it is damaged, LedgerError when it cannot be written or a newer gofer wrote
        it.
        """
        return cls(path, connect(path))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def insert(self, rows: Iterable[RunRow], *, result_key: bytes | None = None) -> None:
        """Add runs durably: all of them, or none, with a LedgerError, when one of the ids exists already.

        The state, counts and times of a group are computed from its rows, whatever the group's own line says.
        `result_key` is the key of the first of them.
        """
        rows = list(rows)
        try:
            with self._write(durable=True):
                changes.add(self._connection, rows)
                if result_key is not None:
                    sql = "INSERT OR REPLACE INTO result_keys (id, key) VALUES (?, ?)"
                    self._connection.execute(sql, [rows[0].id, result_key])
        except LedgerError as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                raise LedgerError(self._clash(rows)) from error
            raise

    def replace_all(self, rows: Iterable[RunRow], *, since: Mapping[str, RunRow] | None = None) -> None:
        """Replace the ledger's runs by these. Readers see the complete old or the complete new contents.

        `since` are the runs when `rows` were gathered. A run that another process has added, changed or
        removed after that keeps its present state. The events of runs that stay are kept.
        """
        with self._write(durable=True):
            # Read inside the transaction, so that no other process can change a run in between.
            now = {} if since is None else {row.id: row for row in self._rows(SELECT_FULL, ())}
            self._connection.execute("DELETE FROM runs")
            self._connection.execute("DELETE FROM records")
            changes.add(self._connection, changes.newest_of(list(rows), since or {}, now))
            self._connection.execute("DELETE FROM events WHERE run_id NOT IN (SELECT id FROM runs)")

    def apply(
        self, observations: Iterable[Observed], observed_at: float, known: Iterable[RunRow] = ()
    ) -> list[str]:
        """Write observations of backends; return the ids that changed, including groups of changed rows.

        A final state is never changed, except `lost` to another final state. Unknown ids and groups are
        ignored. A change of state of a run that is not a row of a group adds an event. `known` are runs as
        the caller has just read them: an observation that changes nothing of such a row costs little.
        """
        rows = {row.id: row for row in known if row.group_id is not None}
        with self._write(durable=False):
            return changes.apply(self._connection, observations, observed_at, rows)

    def get(self, run_id: str) -> RunRow | None:
        """The run, group or row with exactly this id."""
        found = self._rows(f"{SELECT_FULL} WHERE id = ?", [plain(run_id)])
        return found[0] if found else None

    def result_key(self, run_id: str) -> bytes | None:
        """The key that proves a result to be that of the run or group; None when this ledger has none."""
        statement = Statement("SELECT key FROM result_keys WHERE id = ?", (run_id,))
        found = self._run(statement, lambda line: bytes(line[0]))
        return found[0] if found else None

    def matches(
        self, reference: str, *, targets: Sequence[str] = (), project: str | None = None
    ) -> references.Matches:
        """The ids of the runs that `reference` may mean: see `gofer.tracking.references`."""
        with explained(self.path):
            return references.matches(
                self._connection, references.tidy(reference), targets=targets, project=project
            )

    def resolve(self, reference: str, *, targets: Sequence[str] = ()) -> RunRow:
        """The one run that `reference` means: an id, a unique part of an id, a unique name, `last` or
        `last~N`.

        UnknownName when there is none; UsageError with the candidates when there are several.
        """
        return self.only(reference, self.matches(reference, targets=targets), targets=targets)

    def only(self, reference: str, found: references.Matches, *, targets: Sequence[str] = ()) -> RunRow:
        """The one run among the matches of `reference`; errors as `resolve`."""
        word = references.tidy(reference)
        rows = [row for run_id in found.ids[: references.MOST_SHOWN] if (row := self.get(run_id))]
        if not rows:
            raise references.unknown(word, targets)
        if len(found.ids) > 1:
            raise references.ambiguous(word, rows, found)
        return rows[0]

    def newest(
        self, *, project: str | None = None, targets: Sequence[str] = (), most: int = 1
    ) -> list[RunRow]:
        """The newest runs and groups of a project, or of all projects, newest first. Fast, by an index."""
        with explained(self.path):
            ids = references.newest(self._connection, project=project, targets=targets, most=most)
        return [row for run_id in ids if (row := self.get(run_id))]

    def define(self, store: str, data: str) -> str:
        """Keep the definition of a target whose runs are in `store`; return its id. Idempotent.

        `data` holds no secret. Definitions come only from submissions of this user, never from a store.
        """
        import hashlib

        # A hash of the contents, so that equal definitions are kept once.
        key = hashlib.sha256(f"{store}\0{data}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
        # Reading first keeps the usual case free of a durable write, which waits for the disk.
        if self.definition(key) is None:
            with self._write(durable=True):
                sql = "INSERT OR IGNORE INTO definitions (id, store, data) VALUES (?, ?, ?)"
                self._connection.execute(sql, [key, plain(store), data])
        return key

    def definition(self, key: str) -> str | None:
        """The definition with that id; None when there is none."""
        found = self._run(
            Statement("SELECT data FROM definitions WHERE id = ?", (key,)), lambda line: str(line[0])
        )
        return found[0] if found else None

    def definitions_at(self, store: str) -> list[str]:
        """The ids of the definitions of targets whose runs are in that store."""
        sql = "SELECT id FROM definitions WHERE store = ? ORDER BY id"
        return self._run(Statement(sql, (plain(store),)), lambda line: str(line[0]))

    def select(self, query: Query) -> list[RunRow]:
        """The runs that match, in the query's order; without their records unless the query asks for them."""
        return self._run(compile_select(query), decode)

    def selection(self, query: Query) -> Selection:
        """What `select` returns, read in batches while it is iterated over: for very many runs."""
        ids = self._run(compile_ids(query), lambda line: str(line[0]))
        return Selection(self, ids, records=query.records)

    def batch(self, ids: Sequence[str], *, records: bool) -> list[RunRow]:
        """The runs with these ids, in this order, without those that are gone; at most a few hundred."""
        select = SELECT_FULL if records else SELECT_BARE
        found = {row.id: row for row in self._rows(f"{select} WHERE id IN ({marks(ids)})", ids)}
        return [found[run_id] for run_id in ids if run_id in found]

    def count(self, query: Query) -> int:
        """The number of runs that match, whatever the query's limit."""
        return self._run(compile_count(query), lambda line: int(line[0]))[0]

    def rows_of(self, group_id: str, states: Collection[str] | None = None) -> list[RunRow]:
        """The rows of a group in order: all of them, or those in `states`."""
        sql, values = f"{SELECT_BARE} WHERE group_id = ?", [group_id]
        if states is not None:
            sql, values = f"{sql} AND state IN ({marks(states)})", [*values, *map(str, states)]
        return self._rows(f"{sql} ORDER BY row_index", values)

    def active(self, target: str | None = None) -> list[RunRow]:
        """Runs and rows, but not groups, whose state is not final, without their records; oldest first."""
        sql = f"{SELECT_BARE} WHERE kind = 'run' AND state IN ({marks(ACTIVE)})"
        values: list[str | None] = list(ACTIVE)
        if target is not None:
            sql, values = f"{sql} AND target = ?", [*values, plain(target)]
        # Sorted here: for 100,000 rows of an array SQLite takes seconds to sort lines of 30 columns.
        return sorted(
            self._rows(sql, values),
            key=lambda row: (row.submitted_at, -1 if row.row_index is None else row.row_index, row.id),
        )

    def set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Replace all tags of a run or group; UnknownName when it is not in the ledger."""
        with self._write(durable=True):
            done = self._connection.execute("UPDATE runs SET tags = ? WHERE id = ?", [to_json(tags), run_id])
            if not done.rowcount:
                raise UnknownName(f"no run has the id `{run_id}`", hint="`gofer list runs`")

    def remove(self, run_id: str) -> bool:
        """Remove a run, or a group with its rows, and its events.

        False, and no change, unless it has ended.
        """
        with self._write(durable=True):
            return changes.remove(self._connection, run_id)

    def events(self, run_id: str) -> list[Event]:
        """What gofer did and observed about a run, in the order of writing."""
        sql = "SELECT at, event, data FROM events WHERE run_id = ? ORDER BY rowid"
        return self._run(Statement(sql, (run_id,)), decode_event)

    def add_event(self, run_id: str, at: float, event: str, data: Mapping[str, Any]) -> None:
        """Note something that gofer did about a run; `data` is plain JSON without secrets."""
        with self._write(durable=False):
            changes.add_event(self._connection, run_id, Event(at, event, dict(data)))

    def check(self) -> None:
        """Read the whole file; LedgerCorrupt when a part of it is damaged. Slow on a large ledger."""
        self._run(Statement(SELECT_FULL, ()), decode)
        with explained(self.path):
            answer = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if answer != "ok":
            raise LedgerCorrupt(f"the ledger {self.path} is damaged: {answer}", hint="`gofer ledger rebuild`")

    @contextmanager
    def _write(self, *, durable: bool) -> Iterator[None]:
        with transaction(self._connection, self.path, durable=durable):
            yield

    def _rows(self, sql: str, values: Sequence[object]) -> list[RunRow]:
        return self._run(Statement(sql, tuple(values)), decode)

    def _run(self, statement: Statement, read: Callable[[Sequence[Any]], _T]) -> list[_T]:
        with explained(self.path), _functions(statement) as functions:
            for name, arguments, function in functions:
                self._connection.create_function(name, arguments, function, deterministic=True)
            return [read(line) for line in self._connection.execute(statement.sql, statement.values)]

    def _clash(self, rows: list[RunRow]) -> str:
        """Which id is taken, in words."""
        taken = next((row.id for row in rows if self.get(row.id)), None)
        if taken is None:
            return "two of the runs to add have the same id"
        return f"the ledger already has the run `{taken}`"


class Selection(Collection[RunRow]):
    """The runs that a query matched when it was made. Each iteration reads them again, in batches of 500, so
    memory does not grow with their number. A run that was removed meanwhile is left out.
    """

    def __init__(self, ledger: Ledger, ids: Sequence[str], *, records: bool) -> None:
        self._ledger = ledger
        self._ids = ids
        self._records = records

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[RunRow]:
        for at in range(0, len(self._ids), _BATCH):
            yield from self._ledger.batch(self._ids[at : at + _BATCH], records=self._records)

    def __contains__(self, row: object) -> bool:
        return isinstance(row, RunRow) and row.id in self._ids

    def first(self, most: int | None) -> Selection:
        """The first `most` of these runs; all of them for None."""
        return Selection(self._ledger, self._ids[:most], records=self._records)


@contextmanager
def _functions(statement: Statement) -> Iterator[list[tuple[str, int, Callable[..., Any]]]]:
    """The functions that a statement needs: name, number of arguments, code. Searches have a time limit."""
    commands = [(COMMAND_FUNCTION, 1, command_text)] if statement.has_commands else []
    if not statement.has_patterns:
        yield [*commands]
        return
    from gofer.tracking.pattern_limit import limited_search

    with limited_search() as search:
        yield [*commands, (PATTERN_FUNCTION, 2, pattern_function(search))]
