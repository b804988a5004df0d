"""The statements that change the ledger. Each runs in a transaction that the caller has opened."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from gofer.tracking.changes import Observed, Span, after, group_after
from gofer.tracking.rows import INSERT, SELECT_BARE, Event, RunRow, decode, encode, marks, to_json

_CHUNK = 500  # bound values in one statement; old SQLite takes at most 999

_CHANGING = ("state", "reason", "detail", "exit_code", "started_at", "ended_at", "elapsed_s")
_CHANGING_JSON = ("attempts", "counts")
_UPDATE = f"UPDATE runs SET {' = ?, '.join([*_CHANGING, *_CHANGING_JSON, 'observed_at'])} = ? WHERE id = ?"
_SPANS = "SELECT state, count(*), min(started_at), max(ended_at) FROM runs WHERE group_id = ? GROUP BY state"

_Change = tuple[RunRow, RunRow]  # before and after


def add(connection: sqlite3.Connection, rows: Sequence[RunRow]) -> None:
    """Insert rows with their records, then compute the groups among them from their rows."""
    connection.executemany(INSERT, (encode(row) for row in rows))
    records = ((row.id, row.record) for row in rows if row.record)
    connection.executemany("INSERT INTO records (id, record) VALUES (?, ?)", records)
    touched = dict.fromkeys(row.group_id or row.id for row in rows if row.group_id or row.kind == "group")
    for group in _by_id(connection, [*touched]):
        _update(connection, [_summed(connection, group)[1]], group.observed_at)


def newest_of(rows: Sequence[RunRow], since: Mapping[str, RunRow], now: Mapping[str, RunRow]) -> list[RunRow]:
    """`rows`, except for runs that differ between `since` and `now`, which stay as they are now. Pure."""
    changed = {key for key in {*since, *now} if since.get(key) != now.get(key)}
    return [row for row in rows if row.id not in changed] + [now[key] for key in changed if key in now]


def apply(connection: sqlite3.Connection, observations: Iterable[Observed], observed_at: float) -> list[str]:
    """Merge observations by the rules of `changes`; return the ids that changed, groups after their rows."""
    seen = {observation.run_id: observation for observation in observations}
    known = [row for row in _by_id(connection, list(seen)) if row.kind == "run"]
    changes = [(row, after(row, seen[row.id])) for row in known]
    # Unchanged rows of large arrays are not written after every question: their group has the time of it.
    _update(connection, [new for old, new in changes if new != old or old.group_id is None], observed_at)
    touched = dict.fromkeys(old.group_id for old, _ in changes if old.group_id)
    groups = [_summed(connection, group) for group in _by_id(connection, [*touched])]
    _update(connection, [new for _, new in groups], observed_at)
    _note_states(connection, changes, observed_at)
    return [new.id for old, new in changes + groups if new != old]


def add_event(connection: sqlite3.Connection, run_id: str, event: Event) -> None:
    """Append one event of a run."""
    connection.execute(
        "INSERT INTO events (run_id, at, event, data) VALUES (?, ?, ?, ?)",
        [run_id, event.at, event.event, to_json(event.data)],
    )


def remove(connection: sqlite3.Connection, run_id: str) -> bool:
    """Delete a run, or a group with its rows, and their events; False, and no change, if it is open."""
    found = _by_id(connection, [run_id])
    if not found or not found[0].is_final:
        return False
    whole = "SELECT id FROM runs WHERE id = ?1 OR group_id = ?1"
    connection.execute(f"DELETE FROM events WHERE run_id IN ({whole})", [run_id])
    connection.execute(f"DELETE FROM records WHERE id IN ({whole})", [run_id])
    connection.execute("DELETE FROM runs WHERE id = ?1 OR group_id = ?1", [run_id])
    return True


def _by_id(connection: sqlite3.Connection, ids: Sequence[str | None]) -> list[RunRow]:
    chunks = (ids[at : at + _CHUNK] for at in range(0, len(ids), _CHUNK))
    return [
        decode(line)
        for chunk in chunks
        for line in connection.execute(f"{SELECT_BARE} WHERE id IN ({marks(chunk)})", chunk)
    ]


def _update(connection: sqlite3.Connection, rows: Iterable[RunRow], observed_at: float | None) -> None:
    lines = (
        [
            *(getattr(row, field) for field in _CHANGING),
            *(to_json(getattr(row, field)) for field in _CHANGING_JSON),
            observed_at,
            row.id,
        ]
        for row in rows
    )
    connection.executemany(_UPDATE, lines)


def _summed(connection: sqlite3.Connection, group: RunRow) -> _Change:
    return group, group_after(group, [Span(*line) for line in connection.execute(_SPANS, [group.id])])


def _note_states(connection: sqlite3.Connection, changes: Iterable[_Change], observed_at: float) -> None:
    for old, new in changes:
        if new.state != old.state and old.group_id is None:
            data = {"from": old.state, "to": new.state, "reason": new.reason}
            add_event(connection, new.id, Event(observed_at, "state", data))
