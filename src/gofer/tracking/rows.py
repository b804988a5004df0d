"""One line of the ledger, and its form in SQL. Independent of files, connections and queries.

Every command that reads runs loads this module, so it imports nothing slow: no msgspec, no model.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gofer.core.json_text import parse_json
from gofer.core.states import FINAL_STATES, State
from gofer.model.ids import short_id

if TYPE_CHECKING:
    from gofer.model.run import LedgerAttempt

FINAL = frozenset(str(state) for state in FINAL_STATES)
ACTIVE = tuple(str(state) for state in State if state not in FINAL_STATES)

# Faster than `json.loads`, which looks for spaces first.
_DECODE = json.JSONDecoder().raw_decode
_COMPACT = json.JSONEncoder(separators=(",", ":"))


class RunRow(NamedTuple):
    """A run, a group of runs (an array) or a row of a group.

    A row of a group has kind `run`, the group's id and its index. `record` is the JSON of the run's record;
    it is empty for rows of a group, and in what `Ledger.select` returns unless the query asks for records.
    `observed_at` is when the cluster was last asked; for an unchanged row of a group, see the group.
    `project` is the folder from which this user submitted the run, `definition` the id of its target's
    definition (see `Ledger.define`). Both are empty for a run found in a store, and `project` also for rows
    of a group. `service_id` is the cluster's own name of the run, empty where the cluster has none or was not
    asked.
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
    attempts: list[LedgerAttempt]
    snapshot: str | None
    tags: dict[str, str]
    counts: dict[str, int]
    size: int
    record: bytes
    submitter: str
    observed_at: float | None
    project: str = ""
    definition: str = ""
    service_id: str = ""

    @property
    def short_id(self) -> str:
        return short_id(self.id)

    @property
    def origin(self) -> str:
        """A key that is equal for runs whose targets are reached with the same settings."""
        return self.definition or self.project or self.group_id or ""

    @property
    def is_final(self) -> bool:
        return self.state in FINAL


class Event(NamedTuple):
    """Something that gofer did or observed about a run."""

    at: float
    event: str
    data: Mapping[str, object]


# The record has its own table, so that a scan of `runs` does not read the 1 MB record of a large array.
COLUMNS = tuple(field for field in RunRow._fields if field != "record")
_RECORD_AT = RunRow._fields.index("record")
_JSON_AT = tuple(RunRow._fields.index(field) for field in ("command", "args", "attempts", "tags", "counts"))
_PLAIN_AT = tuple(
    RunRow._fields.index(field)
    for field in ("name", "target", "store", "detail", "submitter", "project", "service_id")
)

SELECT_BARE = "SELECT " + ", ".join("x''" if f == "record" else f for f in RunRow._fields) + " FROM runs"
SELECT_FULL = SELECT_BARE.replace(
    "x''", "coalesce((SELECT record FROM records WHERE records.id = runs.id), x'')"
)
INSERT = f"INSERT INTO runs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


def marks(values: Collection[object]) -> str:
    """As many `?` as there are values, for `IN (…)`."""
    return ", ".join("?" * len(values))


def short_id_of(column: str) -> str:
    """SQL for the short form of the id in a column, as `gofer.model.ids.short_id`."""
    after_dash = f"substr({column}, instr({column}, '-') + 1)"
    return f"substr({after_dash}, instr({after_dash}, '-') + 1)"


def to_json(value: Mapping[str, object] | Sequence[object]) -> str:
    """ASCII JSON, so that text that is not UTF-8 (surrogates from argv) passes through SQLite unchanged."""
    return _COMPACT.encode(value) if value else ("{}" if isinstance(value, Mapping) else "[]")


def plain(text: str | None) -> str | None:
    """The text in a form that SQLite can store: bytes that are not UTF-8 become `\\udcXX`."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def encode(row: RunRow) -> list[Any]:
    """The values for `INSERT`, in its order."""
    values: list[Any] = list(row)
    for at in _JSON_AT:
        values[at] = to_json(values[at])
    for at in _PLAIN_AT:
        values[at] = plain(values[at])
    del values[_RECORD_AT]
    return values


def decode(values: Sequence[Any]) -> RunRow:
    """The row from a line of SELECT_BARE or SELECT_FULL; DamagedLine for a line that gofer cannot have
    written.

    The check is needed because SQLite stores any type in any column, and rarely notices changed bytes.
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


# The types of the columns; text for those not named.
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("gpus", "nodes", "procs", "priority", "size"), (int,)),
    **dict.fromkeys(("row_index", "exit_code"), (int, type(None))),
    **dict.fromkeys(("group_id", "reason", "detail", "snapshot"), (str, type(None))),
    **dict.fromkeys(("started_at", "ended_at", "elapsed_s", "observed_at"), (float, int, type(None))),
    "submitted_at": (float, int),
    "record": (bytes,),
}
# Combinations of column types that have been checked: a few, however many lines there are.
_sound: set[tuple[type, ...]] = set()


def _check_types(types: tuple[type, ...]) -> None:
    for field, found in zip(RunRow._fields, types, strict=True):
        if found not in _TYPES.get(field, (str,)):
            raise DamagedLine(f"a line has an invalid `{field}`")


# For each JSON column: the text of the empty value, the type of the value, the types of its contents.
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


def _is_attempt(value: dict[str, object]) -> bool:
    return type(value.get("number")) is int and isinstance(value.get("state"), str)


def _decode_json(text: str, at: int) -> object:
    empty, outer, inner = _SHAPES[at]
    if text == empty:  # the usual case
        return outer()
    try:
        value, end = _DECODE(text)
        # Spaces at the ends, which gofer does not write.
        if end != len(text):
            value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    held = value.values() if type(value) is dict else value
    is_sound = type(value) is outer and inner.issuperset(map(type, held))
    if not is_sound or (at == _ATTEMPTS_AT and not all(map(_is_attempt, value))):
        raise DamagedLine(f"a line has an invalid `{RunRow._fields[at]}`")
    return value


def decode_event(values: Sequence[Any]) -> Event:
    """The event of a line (time, word, JSON); DamagedLine for a line that gofer cannot have written."""
    at, event, text = values
    try:
        data = parse_json(text)
    except (ValueError, TypeError):
        data = None
    if not isinstance(at, int | float) or not isinstance(event, str) or not isinstance(data, dict):
        raise DamagedLine("an event is not valid")
    return Event(at, event, data)
