"""Changes of the ledger: which state an observation leads to, and the statements that write it.

Each statement runs in a transaction that the caller has opened.
A final state stays, except `lost`, which means that nobody could say how the run ended: later proof replaces
it.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from gofer.core.states import State
from gofer.tracking.rows import (
    FINAL,
    INSERT,
    SELECT_BARE,
    Event,
    RunRow,
    decode,
    encode,
    marks,
    plain,
    to_json,
)

if TYPE_CHECKING:
    from gofer.model.run import LedgerAttempt

_T = TypeVar("_T")
_GOING = (State.RUNNING, State.STARTING)
_WAITING = (State.QUEUED, State.PENDING, State.PAUSED)

_CHUNK = 500  # bound values in one statement; old SQLite takes at most 999

_CHANGING = ("state", "reason", "detail", "exit_code", "started_at", "ended_at", "elapsed_s", "service_id")
_NO_FACTS = (None,) * 6
_CHANGING_JSON = ("attempts", "counts")
_UPDATE = f"UPDATE runs SET {' = ?, '.join([*_CHANGING, *_CHANGING_JSON, 'observed_at'])} = ? WHERE id = ?"
_STATE_COUNTS = (
    "SELECT state, count(*), min(started_at), max(ended_at) FROM runs WHERE group_id = ? GROUP BY state"
)

_Change = tuple[RunRow, RunRow]  # before and after


class _Encodes(Protocol):
    def encode(self) -> LedgerAttempt: ...


class Observed(Protocol):
    """The attributes of gofer.model.run.Observation. A protocol, because importing the model is slow."""

    @property
    def run_id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def detail(self) -> str | None: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def started_at(self) -> float | None: ...
    @property
    def ended_at(self) -> float | None: ...
    @property
    def elapsed_s(self) -> float | None: ...
    @property
    def attempts(self) -> Sequence[_Encodes]: ...
    @property
    def service_id(self) -> str: ...


class StateCount(NamedTuple):
    """The rows of a group in one state: how many there are, their first start and their last end."""

    state: str
    rows: int
    first_start: float | None
    last_end: float | None


def after(row: RunRow, seen: Observed) -> RunRow:
    """The row after the observation; equal to `row` when nothing changes or may change. Pure."""
    state = str(seen.state)
    same = state == row.state
    # The many waiting rows of an array: nothing is known of either but the state.
    is_news = seen.attempts or seen.service_id not in ("", row.service_id)
    if same and not is_news and _facts(seen) == _NO_FACTS == _facts(row):
        return row
    if row.is_final and not same and not (row.state == State.LOST and state in FINAL):
        return row
    ended = row.is_final and same  # details that arrive late fill gaps of an ended run, but erase nothing
    return row._replace(
        state=state,
        reason=_word(seen.reason) or (row.reason if ended else None),
        detail=plain(seen.detail) or (row.detail if ended else None),
        exit_code=_first(seen.exit_code, row.exit_code if ended else None),
        started_at=_first(seen.started_at, row.started_at),
        ended_at=_first(seen.ended_at, row.ended_at if ended else None),
        elapsed_s=_first(seen.elapsed_s, row.elapsed_s if ended else None),
        attempts=[attempt.encode() for attempt in seen.attempts] or row.attempts,
        service_id=plain(seen.service_id) or row.service_id,
    )


def _facts(one: Observed | RunRow) -> tuple[object, ...]:
    return (one.reason, one.detail, one.exit_code, one.started_at, one.ended_at, one.elapsed_s)


def group_state(counts: Mapping[str, int]) -> str:
    """The state of a group, from the number of its rows in each state. Pure."""
    states = {state for state, count in counts.items() if count}
    # One running row makes the whole group running.
    if states & {*_GOING}:
        return str(State.RUNNING)
    if states & {*_WAITING}:
        return str(State.PENDING if states == {State.PENDING} else State.QUEUED)
    if State.UNKNOWN in states:
        return str(State.UNKNOWN)
    if states == {State.SUCCEEDED}:
        return str(State.SUCCEEDED)
    return str(State.FAILED if states & {State.FAILED, State.LOST} else State.CANCELLED)


def group_after(group: RunRow, states: Sequence[StateCount]) -> RunRow:
    """The group with values computed from its rows; unchanged when the ledger has no rows of it. Pure."""
    if not states:
        return group
    counts = {one.state: one.rows for one in states}
    state = group_state(counts)
    started = min((s.first_start for s in states if s.first_start is not None), default=None)
    ended = max((s.last_end for s in states if s.last_end is not None), default=None)
    # An open group has no end, although some of its rows have.
    if state not in FINAL:
        ended = None
    elapsed = max(ended - started, 0.0) if ended is not None and started is not None else None
    return group._replace(state=state, counts=counts, started_at=started, ended_at=ended, elapsed_s=elapsed)


def _word(reason: str | None) -> str | None:
    return None if reason is None else str(reason)


def _first(value: _T | None, otherwise: _T | None) -> _T | None:
    return otherwise if value is None else value


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


def apply(
    connection: sqlite3.Connection,
    observations: Iterable[Observed],
    observed_at: float,
    read: Mapping[str, RunRow],
) -> list[str]:
    """Merge observations by the rules of `changes`; return the ids that changed, groups after their rows.
    `read` are rows of groups that the caller has read: one that does not change is not read again.
    """
    seen = {observation.run_id: observation for observation in observations}
    same = [row for row in read.values() if row.id in seen and after(row, seen[row.id]) == row]
    for row in same:
        del seen[row.id]
    known = [row for row in _by_id(connection, list(seen)) if row.kind == "run"]
    changes = [(row, after(row, seen[row.id])) for row in known]
    # Unchanged rows of large arrays are not written after every question: their group has the time of it.
    _update(connection, [new for old, new in changes if new != old or old.group_id is None], observed_at)
    touched = dict.fromkeys(
        row.group_id for row in itertools.chain(same, (old for old, _ in changes)) if row.group_id
    )
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
    connection.execute("DELETE FROM result_keys WHERE id = ?", [run_id])
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
    return group, group_after(
        group, [StateCount(*line) for line in connection.execute(_STATE_COUNTS, [group.id])]
    )


def _note_states(connection: sqlite3.Connection, changes: Iterable[_Change], observed_at: float) -> None:
    for old, new in changes:
        if new.state != old.state and old.group_id is None:
            data = {"from": old.state, "to": new.state, "reason": new.reason}
            add_event(connection, new.id, Event(observed_at, "state", data))
