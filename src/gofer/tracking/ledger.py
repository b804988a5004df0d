"""The ledger: what this person submitted, and what was last seen of it. One SQLite file, many processes.

Light, since every reading command loads it: sqlite3 and json, no msgspec and no model; what only some calls
need is imported in them. A Ledger belongs to the thread that opened it. Every write is one transaction; a
process killed in its middle leaves the file as it was. Errors are of the LedgerError family; LedgerCorrupt
means that the file must be set aside and rebuilt from the stores.
"""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from gofer.errors import LedgerCorrupt, LedgerError, UnknownName
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
from gofer.tracking.sql import Statement, compile_count, compile_select

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from gofer.tracking.changes import Observed

__all__ = ["Event", "Ledger", "RunRow"]

_T = TypeVar("_T")


class Ledger:
    """Open with `Ledger.open`; close it, or use it as a context."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path) -> Ledger:
        """The ledger at `path`, made when absent or empty, migrated when older.

        LedgerCorrupt when damaged; LedgerError when it cannot be written or a newer gofer wrote it.
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

    def insert(self, rows: Iterable[RunRow]) -> None:
        """Add runs durably. All, or none and LedgerError when one of the ids is there already.

        The state, counts and times of a group are those of its rows, whatever the group's own line says.
        """
        from gofer.tracking import writes

        rows = list(rows)
        try:
            with self._write(durable=True):
                writes.add(self._connection, rows)
        except LedgerError as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                raise LedgerError(f"the ledger already has the run {self._clash(rows)}") from error
            raise

    def replace_all(self, rows: Iterable[RunRow], *, since: Mapping[str, RunRow] | None = None) -> None:
        """Make the ledger hold these runs and no others; readers see the old or the new whole.

        `since` is the ledger as it was when `rows` were gathered. A line that another process wrote, changed
        or removed after that stays as it is now. Events are kept for the runs that stay.
        """
        from gofer.tracking import writes

        with self._write(durable=True):
            now = {} if since is None else {row.id: row for row in self._rows(SELECT_FULL, ())}
            self._connection.execute("DELETE FROM runs")
            self._connection.execute("DELETE FROM records")
            writes.add(self._connection, writes.newest_of(list(rows), since or {}, now))
            self._connection.execute("DELETE FROM events WHERE run_id NOT IN (SELECT id FROM runs)")

    def apply(self, observations: Iterable[Observed], observed_at: float) -> list[str]:
        """Write what backends saw; the ids that changed, groups of changed rows included.

        A final state is never undone, except `lost` by another final state. Unknown ids and groups are
        passed over. A change of state of a run that is not a row of a group leaves an event.
        """
        from gofer.tracking import writes

        with self._write(durable=False):
            return writes.apply(self._connection, observations, observed_at)

    def get(self, run_id: str) -> RunRow | None:
        """The run, group or row with exactly this id."""
        found = self._rows(f"{SELECT_FULL} WHERE id = ?", [plain(run_id)])
        return found[0] if found else None

    def resolve(self, reference: str, *, target: str | None = None) -> RunRow:
        """The one run that `reference` means: an id, a unique beginning or end of one, or `last`.

        UnknownName when there is none; UsageError with the candidates when there are several.
        """
        from gofer.tracking import references

        word = references.tidy(reference)
        with explained(self.path):
            ids = references.candidates(self._connection, word, target)
        found = [row for run_id in ids[: references.MOST_SHOWN] if (row := self.get(run_id))]
        if not found:
            raise references.unknown(word, target)
        if len(ids) > 1:
            raise references.ambiguous(word, found, len(ids))
        return found[0]

    def newest(self, *, project: str | None = None, target: str | None = None, most: int = 1) -> list[RunRow]:
        """The newest runs and groups of a project, or of all, newest first; by an index."""
        from gofer.tracking import references

        with explained(self.path):
            ids = references.newest(self._connection, project=project, target=target, most=most)
        return [row for run_id in ids if (row := self.get(run_id))]

    def define(self, store: str, data: str) -> str:
        """Keep the definition of a target whose runs are in `store`; its id. Idempotent.

        `data` holds no secret. Definitions come only from submissions of this person, never from a store.
        """
        import hashlib

        key = hashlib.sha256(f"{store}\0{data}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
        if self.definition(key) is None:
            with self._write(durable=True):
                sql = "INSERT OR IGNORE INTO definitions (id, store, data) VALUES (?, ?, ?)"
                self._connection.execute(sql, [key, plain(store), data])
        return key

    def definition(self, key: str) -> str | None:
        """The definition of that id; None when there is none."""
        found = self._run(
            Statement("SELECT data FROM definitions WHERE id = ?", (key,)), lambda line: str(line[0])
        )
        return found[0] if found else None

    def definitions_at(self, store: str) -> list[str]:
        """The ids of the definitions of targets whose runs are in that store."""
        sql = "SELECT id FROM definitions WHERE store = ? ORDER BY id"
        return self._run(Statement(sql, (plain(store),)), lambda line: str(line[0]))

    def select(self, query: Query) -> list[RunRow]:
        """The runs that match, in the query's order; without their records unless it asks for them."""
        return self._run(compile_select(query), decode)

    def count(self, query: Query) -> int:
        """How many runs match, whatever the query's limit."""
        return self._run(compile_count(query), lambda line: int(line[0]))[0]

    def rows_of(self, group_id: str, states: Collection[str] | None = None) -> list[RunRow]:
        """The rows of a group in their order, all or those in `states`."""
        sql, values = f"{SELECT_BARE} WHERE group_id = ?", [group_id]
        if states is not None:
            sql, values = f"{sql} AND state IN ({marks(states)})", [*values, *map(str, states)]
        return self._rows(f"{sql} ORDER BY row_index", values)

    def active(self, target: str | None = None) -> list[RunRow]:
        """Runs and rows, not groups, whose state is not final, with their records; oldest first."""
        sql = f"{SELECT_FULL} WHERE kind = 'run' AND state IN ({marks(ACTIVE)})"
        values: list[str | None] = list(ACTIVE)
        if target is not None:
            sql, values = f"{sql} AND target = ?", [*values, plain(target)]
        return self._rows(f"{sql} ORDER BY submitted_at, row_index, id", values)

    def set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Replace all tags of a run or group; UnknownName when it is not there."""
        with self._write(durable=True):
            done = self._connection.execute("UPDATE runs SET tags = ? WHERE id = ?", [to_json(tags), run_id])
            if not done.rowcount:
                raise UnknownName(f"no run has the id `{run_id}`", hint="`gofer list runs`")

    def remove(self, run_id: str) -> bool:
        """Forget a run, or a group with its rows, and what was noted about it; False unless it has ended."""
        from gofer.tracking import writes

        with self._write(durable=True):
            return writes.remove(self._connection, run_id)

    def events(self, run_id: str) -> list[Event]:
        """What gofer did and saw about a run, in the order it was written."""
        sql = "SELECT at, event, data FROM events WHERE run_id = ? ORDER BY rowid"
        return self._run(Statement(sql, (run_id,)), decode_event)

    def add_event(self, run_id: str, at: float, event: str, data: Mapping[str, Any]) -> None:
        """Note something gofer did about a run; `data` is plain JSON without secrets."""
        from gofer.tracking import writes

        with self._write(durable=False):
            writes.add_event(self._connection, run_id, Event(at, event, dict(data)))

    def check(self) -> None:
        """Read the whole file; LedgerCorrupt when any of it is damaged. Slow on a large ledger."""
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
        with explained(self.path), _limited(statement):
            for function in statement.functions:
                self._connection.create_function(*function, deterministic=True)
            return [read(line) for line in self._connection.execute(statement.sql, statement.values)]

    def _clash(self, rows: list[RunRow]) -> str:
        return next((f"`{row.id}`" for row in rows if self.get(row.id)), "that was to be added twice")


def _limited(statement: Statement) -> AbstractContextManager[None]:
    """A limit on the time of a statement that evaluates regular expressions."""
    if not statement.functions:
        return nullcontext()
    from gofer.tracking.pattern_limit import limited

    return limited()
