"""The queue of one machine: an SQLite file that submitters write to and one supervisor works off.

Adding is idempotent by run id. Every change is committed before it is acted on, so whatever is killed, the
file and the run folders together say what happened.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    request TEXT NOT NULL,
    row INTEGER,
    args TEXT NOT NULL DEFAULT '{}',
    priority INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued',
    reason TEXT, detail TEXT, exit_code INTEGER,
    attempt INTEGER NOT NULL DEFAULT 0,
    restarts INTEGER NOT NULL DEFAULT 0,
    attempts TEXT NOT NULL DEFAULT '[]',
    gpus TEXT NOT NULL DEFAULT '[]',
    agents TEXT NOT NULL DEFAULT '[]',
    not_before REAL NOT NULL DEFAULT 0,
    started_at REAL, ended_at REAL, elapsed_s REAL,
    boot TEXT,
    cancel_grace_s REAL
);
CREATE INDEX IF NOT EXISTS runs_request ON runs (request);
CREATE INDEX IF NOT EXISTS runs_open ON runs (seq) WHERE state IN ('queued', 'starting', 'running');
CREATE INDEX IF NOT EXISTS runs_cancelled ON runs (seq) WHERE cancel_grace_s IS NOT NULL;
"""
# A cancel with no grace of its own uses the job's; SQL has no way to say "asked for, unspecified".
OWN_GRACE = -1.0


_SAVED = (
    *("state", "reason", "detail", "exit_code", "attempt", "restarts", "attempts", "gpus", "agents"),
    *("not_before", "started_at", "ended_at", "elapsed_s", "boot"),
)
_COLUMNS = ("seq", "id", "request", "row", "args", "priority", "cancel_grace_s", *_SAVED)
_AS_JSON = ("args", "attempts", "gpus", "agents")


class Entry:
    """One run in the queue, as the supervisor holds it in memory."""

    __slots__ = _COLUMNS

    seq: int
    id: str
    request: str
    row: int | None
    args: dict[str, str]
    priority: int
    cancel_grace_s: float | None
    state: str
    reason: str | None
    detail: str | None
    exit_code: int | None
    attempt: int
    restarts: int
    attempts: list[dict[str, Any]]
    gpus: list[list[int]]
    agents: list[list[int]]
    not_before: float
    started_at: float | None
    ended_at: float | None
    elapsed_s: float | None
    boot: str | None

    def __init__(self, values: Sequence[Any]) -> None:
        for name, value in zip(_COLUMNS, values):
            setattr(self, name, json.loads(value) if name in _AS_JSON else value)

    def saved(self) -> list[Any]:
        """The values that a supervisor changes, as the queue keeps them."""
        return [
            json.dumps(getattr(self, name)) if name in _AS_JSON else getattr(self, name) for name in _SAVED
        ]

    @property
    def order(self) -> tuple[int, int]:
        """Highest priority first, then first come first served."""
        return (-self.priority, self.seq)


class Seen(NamedTuple):
    """What an observer is told of a run."""

    id: str
    state: str
    reason: str | None
    detail: str | None
    exit_code: int | None
    started_at: float | None
    ended_at: float | None
    elapsed_s: float | None
    attempts: list[dict[str, Any]]


_SEEN = "id, state, reason, detail, exit_code, started_at, ended_at, elapsed_s, attempts"
_OPEN = "state IN ('queued', 'starting', 'running')"


class Queue:
    """A connection to the queue; one thread, one process. sqlite3's own errors pass through."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        os.makedirs(engine, mode=0o700, exist_ok=True)
        self.path = os.path.join(engine, "queue.db")
        self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        try:
            return _connect(self.path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            _set_aside(self.path)
            return _connect(self.path)

    def close(self) -> None:
        self._db.close()

    def version(self) -> int:
        """Changes whenever another connection has committed something."""
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    def add(
        self, body: dict[str, Any], runs: Iterable[tuple[str, int | None, dict[str, str] | None]]
    ) -> bool:
        """Queue a request with its runs, all or nothing; False when it was there already."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            known = self._db.execute(
                "INSERT OR IGNORE INTO requests (id, body) VALUES (?, ?)", (body["id"], json.dumps(body))
            )
            if not known.rowcount:
                return False
            self._db.executemany(
                "INSERT INTO runs (id, request, row, args, priority) VALUES (?, ?, ?, ?, ?)",
                (
                    (run_id, body["id"], row, json.dumps(args or {}), body["priority"])
                    for run_id, row, args in runs
                ),
            )
        return True

    def ask_cancel(self, ids: Iterable[str], grace_s: float | None) -> None:
        """Mark runs, or every run of a group, for the supervisor to end; ended ones are left alone."""
        grace = OWN_GRACE if grace_s is None else max(0.0, grace_s)
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            for run_id in ids:
                self._db.execute(
                    f"UPDATE runs SET cancel_grace_s = ? WHERE (id = ? OR request = ?) AND {_OPEN}",
                    (grace, run_id, run_id),
                )

    def observe(self, ids: Iterable[str]) -> Iterator[Seen]:
        """The runs with these ids, and all runs of these groups."""
        for run_id in ids:
            rows = self._db.execute(f"SELECT {_SEEN} FROM runs WHERE id = ? OR request = ?", (run_id, run_id))
            for row in rows:
                yield Seen._make((*row[:-1], json.loads(row[-1])))

    def load_request(self, request_id: str) -> dict[str, Any]:
        row = self._db.execute("SELECT body FROM requests WHERE id = ?", (request_id,)).fetchone()
        body: dict[str, Any] = json.loads(row[0])
        return body

    def load_open(self, after_seq: int = 0) -> list[Entry]:
        """Runs that have not ended, oldest first."""
        rows = self._db.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM runs WHERE {_OPEN} AND seq > ? ORDER BY seq", (after_seq,)
        )
        return [Entry(row) for row in rows]

    def load_cancels(self) -> list[tuple[str, float]]:
        return self._db.execute(
            f"SELECT id, cancel_grace_s FROM runs WHERE cancel_grace_s IS NOT NULL AND {_OPEN}"
        ).fetchall()

    def has_open(self) -> bool:
        return self._db.execute(f"SELECT 1 FROM runs WHERE {_OPEN} LIMIT 1").fetchone() is not None

    def is_over(self, request_id: str) -> bool:
        """Whether a request is known here and all its runs have ended."""
        known = self._db.execute("SELECT 1 FROM requests WHERE id = ?", (request_id,)).fetchone()
        query = f"SELECT 1 FROM runs WHERE request = ? AND {_OPEN} LIMIT 1"
        return known is not None and self._db.execute(query, (request_id,)).fetchone() is None

    def counts(self) -> dict[str, int]:
        return dict(
            self._db.execute(f"SELECT state, count(*) FROM runs WHERE {_OPEN} GROUP BY state").fetchall()
        )

    def waiting_ahead(self, run_id: str) -> int:
        """How many queued runs come before this one."""
        row = self._db.execute(
            "SELECT count(*) FROM runs a JOIN runs b ON b.id = ? WHERE a.state = 'queued'"
            " AND (a.priority > b.priority OR (a.priority = b.priority AND a.seq < b.seq))",
            (run_id,),
        ).fetchone()
        return int(row[0])

    def save(self, entries: Iterable[Entry]) -> None:
        """Write back what the supervisor changed, in one durable transaction."""
        rows = [(*entry.saved(), entry.seq) for entry in entries]
        if not rows:
            return
        changes = ", ".join(f"{name} = ?" for name in _SAVED)
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(f"UPDATE runs SET {changes} WHERE seq = ?", rows)


def _connect(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=30.0, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        found = db.execute("PRAGMA user_version").fetchone()[0]
        if found > _VERSION:
            raise sqlite3.OperationalError(f"it is of version {found}, made by a newer gofer")
        if found < _VERSION:
            with db:
                db.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {_VERSION}")
        os.chmod(path, 0o600)
    except sqlite3.Error:
        db.close()
        raise
    return db


def _set_aside(path: str) -> None:
    """Keep a damaged file for a look at it later; run folders fence what was started from being started
    again.
    """
    suffix = f".damaged-{int(time.time())}"
    for ending in ("", "-wal", "-shm"):
        if os.path.exists(path + ending):
            os.replace(path + ending, path + suffix + ending)
