"""One line of the ledger, and its form in SQL. Knows nothing of files, connections or queries.

On the way of every reading command, so it loads nothing beyond json: no msgspec, no model.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from gofer.core.json_text import parse_json
from gofer.core.states import FINAL_STATES, State
from gofer.model.ids import short_id

FINAL = frozenset(str(state) for state in FINAL_STATES)
ACTIVE = tuple(str(state) for state in State if state not in FINAL_STATES)

_COMPACT = json.JSONEncoder(separators=(",", ":"))


class RunRow(NamedTuple):
    """A run, a group of runs (an array) or a row of a group.

    A row of a group has kind `run`, the group's id and its index. `record` is the JSON of the run's record;
    it is empty in the rows of a group, and in what `Ledger.select` returns unless the query asks for records.
    `observed_at` is when the cluster was last asked; for an unchanged row of a group, look at the group's.
    `project` is the folder that this person submitted it from, `definition` the id of its target's definition
    (see `Ledger.define`); both are empty for a run found in a store, and `project` for rows of a group.
    """

    id: str
    kind: str
    group_id: str | None
    row_index: int | None
    name: str
    target: str
    backend: str
    store: str
    state: str
    reason: str | None
    detail: str | None
    exit_code: int | None
    command: list[str]
    args: dict[str, str]
    gpus: int
    nodes: int
    procs: int
    priority: int
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    elapsed_s: float | None
    attempts: list[dict[str, Any]]
    snapshot: str | None
    tags: dict[str, str]
    counts: dict[str, int]
    size: int
    record: bytes
    submitter: str
    observed_at: float | None
    project: str = ""
    definition: str = ""

    @property
    def short_id(self) -> str:
        return short_id(self.id)

    @property
    def origin(self) -> str:
        """Equal for runs whose targets are reached by the same settings."""
        return self.definition or self.project or self.group_id or ""

    @property
    def is_final(self) -> bool:
        return self.state in FINAL


class Event(NamedTuple):
    """Something gofer itself did or saw about a run."""

    at: float
    event: str
    data: dict[str, Any]


# The record has a table of its own, so that a scan of `runs` never reads the 1 MB record of a large array.
COLUMNS = tuple(field for field in RunRow._fields if field != "record")
_RECORD_AT = RunRow._fields.index("record")
_JSON_AT = tuple(RunRow._fields.index(field) for field in ("command", "args", "attempts", "tags", "counts"))
_PLAIN_AT = tuple(
    RunRow._fields.index(field) for field in ("name", "target", "store", "detail", "submitter", "project")
)

SELECT_BARE = "SELECT " + ", ".join("x''" if f == "record" else f for f in RunRow._fields) + " FROM runs"
SELECT_FULL = SELECT_BARE.replace(
    "x''", "coalesce((SELECT record FROM records WHERE records.id = runs.id), x'')"
)
INSERT = f"INSERT INTO runs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


def marks(values: Collection[object]) -> str:
    """As many `?` as there are values, for `IN (…)`."""
    return ", ".join("?" * len(values))


def to_json(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """ASCII JSON, so that text that is not UTF-8 (surrogates from argv) passes through SQLite and back."""
    return _COMPACT.encode(value) if value else ("{}" if isinstance(value, Mapping) else "[]")


def plain(text: str | None) -> str | None:
    """Text that SQLite can hold: bytes that were not UTF-8 become `\\udcXX`."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def encode(row: RunRow) -> list[Any]:
    """The values of `INSERT`, in its order."""
    values: list[Any] = list(row)
    for at in _JSON_AT:
        values[at] = to_json(values[at])
    for at in _PLAIN_AT:
        values[at] = plain(values[at])
    del values[_RECORD_AT]
    return values


def decode(values: Sequence[Any]) -> RunRow:
    """The row of a line that SELECT_BARE or SELECT_FULL gave; DamagedLine for one that gofer cannot have
    written: SQLite keeps any type in any column, and notices few changed bytes.
    """
    fields = list(values)
    types = tuple(map(type, fields))
    if types not in _sound:
        _check_types(types)
        _sound.add(types)
    for at in _JSON_AT:
        fields[at] = _decode_json(fields[at], at)
    return RunRow._make(fields)


class DamagedLine(ValueError):
    """A line of the ledger that gofer cannot have written."""


# The types of each column; text where nothing else stands here.
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("gpus", "nodes", "procs", "priority", "size"), (int,)),
    **dict.fromkeys(("row_index", "exit_code"), (int, type(None))),
    **dict.fromkeys(("group_id", "reason", "detail", "snapshot"), (str, type(None))),
    **dict.fromkeys(("started_at", "ended_at", "elapsed_s", "observed_at"), (float, int, type(None))),
    "submitted_at": (float, int),
    "record": (bytes,),
}
# The types of the columns of lines that were found to be in order: a few, whatever the number of lines.
_sound: set[tuple[type, ...]] = set()


def _check_types(types: tuple[type, ...]) -> None:
    for field, found in zip(RunRow._fields, types, strict=True):
        if found not in _TYPES.get(field, (str,)):
            raise DamagedLine(f"a line has no sound `{field}`")


# For each JSON column: the text of the empty value, its type, the types of what a value holds.
_SHAPES: dict[int, tuple[str, type, frozenset[type]]] = {
    at: shape
    for at, shape in zip(
        _JSON_AT,
        (
            ("[]", list, frozenset({str})),
            ("{}", dict, frozenset({str})),
            ("[]", list, frozenset({dict})),
            ("{}", dict, frozenset({str})),
            ("{}", dict, frozenset({int})),
        ),
        strict=True,
    )
}


_ATTEMPTS_AT = RunRow._fields.index("attempts")


def _is_attempt(value: dict[str, Any]) -> bool:
    return type(value.get("number")) is int and isinstance(value.get("state"), str)


def _decode_json(text: str, at: int) -> Any:
    empty, outer, inner = _SHAPES[at]
    if text == empty:  # most are
        return outer()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    held = value.values() if type(value) is dict else value
    is_sound = type(value) is outer and inner.issuperset(map(type, held))
    if not is_sound or (at == _ATTEMPTS_AT and not all(map(_is_attempt, value))):
        raise DamagedLine(f"a line has no sound `{RunRow._fields[at]}`")
    return value


def decode_event(values: Sequence[Any]) -> Event:
    """The event of a line (time, word, JSON); DamagedLine for one that gofer cannot have written."""
    at, event, text = values
    try:
        data = parse_json(text)
    except (ValueError, TypeError):
        data = None
    if not isinstance(at, int | float) or not isinstance(event, str) or not isinstance(data, dict):
        raise DamagedLine("an event is not sound")
    return Event(at, event, data)
