"""The queue of one machine: an SQLite file. Submitters add runs, and one supervisor works them off.

Adding is idempotent by run id. Every change is committed before the supervisor acts on it. Whatever is
killed, the file and the run folders together show what happened.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
from contextlib import closing
from typing import Any, Callable, Iterable, NamedTuple, Sequence, TypedDict, TypeVar

from gofer.core import files, node_request, run_layout
from gofer.core.node_request import NodeRequest
from gofer.core.outcome import AttemptFields, Outcome
from gofer.core.queue_home import make_folder
from gofer.core.retry import backoff, retry, retry_if
from gofer.core.states import Reason, State

T = TypeVar("T")

# Stored for a cancel without a grace of its own, which uses the grace of the job. NULL means "no cancel".
OWN_GRACE = -1.0


_SAVED = (
    *("state", "reason", "detail", "exit_code", "attempt", "restarts", "attempts", "gpus", "agents"),
    *("not_before", "started_at", "ended_at", "elapsed_s", "boot"),
)
_COLUMNS = ("seq", "id", "request", "row", "args", "priority", "cancel_grace_s", *_SAVED)
_AS_JSON = ("args", "attempts", "gpus", "agents")
_BUSY_TIMEOUT_S = 30.0
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


# What a damaged file raises. SQLite quotes bytes of the file in its message; when these are not UTF-8, the
# module sqlite3 raises UnicodeDecodeError.
DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)


class RequestFields(TypedDict, total=False):
    """A request as JSON: the fields that the queue itself reads. gofer.core.node_request has the others."""

    id: str
    store: str
    gpus: int
    block: int
    priority: int


class QueuedRun:
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
    attempts: list[AttemptFields]
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

    def saved(self) -> list[object]:
        """The values that a supervisor changes, encoded for the database."""
        return [
            json.dumps(getattr(self, name)) if name in _AS_JSON else getattr(self, name) for name in _SAVED
        ]

    @property
    def outcome(self) -> Outcome:
        """How the run ended, or how far it is."""
        return Outcome(
            State(self.state),
            None if self.reason is None else Reason(self.reason),
            self.detail,
            self.exit_code,
            self.started_at,
            self.ended_at,
            self.elapsed_s,
        )

    def end(self, outcome: Outcome) -> None:
        """Set the outcome of the run, which ended with an attempt that ended so."""
        for name, value in outcome.of_run(self.attempts).encode().items():
            setattr(self, name, value)

    @property
    def order(self) -> tuple[int, int]:
        """Highest priority first, then first come first served."""
        return (-self.priority, self.seq)


class QueueStatus(NamedTuple):
    """The state of a run as clients see it."""

    id: str
    state: str
    reason: str | None
    detail: str | None
    exit_code: int | None
    started_at: float | None
    ended_at: float | None
    elapsed_s: float | None
    attempts: list[AttemptFields]


_REPORTED = QueueStatus._fields[1:]
_STATUS_COLUMNS = ", ".join(QueueStatus._fields)
_OPEN = "state IN ('queued', 'starting', 'running')"


class Queue:
    """A connection to the queue, for one thread of one process. Errors of sqlite3 pass through.

    When the file is damaged, `add`, `ask_cancel` and `observe` make a new file and continue there. A run that
    was started is not started again: its run folder prevents this.
    """

    def __init__(self, queue_home: str) -> None:
        self.queue_home = queue_home
        make_folder(queue_home)
        self.path = os.path.join(queue_home, "queue.db")
        self.file = QueueFile(self.path)
        self._db = self.file.open()

    def close(self) -> None:
        self._db.close()

    def version(self) -> int:
        """A number that changes whenever another connection commits. Replaced when the file has been
        replaced, so that no other connection can commit to this one.
        """
        self.file.check_same()
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    def _mending(self, act: Callable[[], T]) -> T:
        """Call `act`, and call it again in a new file when this file is damaged. `act` must be safe to
        repeat.
        """
        try:
            return act()
        except DAMAGE as error:
            if not self.file.set_aside_if(error):
                raise
        self._db.close()
        self._db = self.file.open()
        return act()

    def add(self, body: RequestFields, runs: Iterable[tuple[str, int | None, dict[str, str] | None]]) -> bool:
        """Queue a request with all its runs, or nothing; False when the request was there already.

        Runs that ended in an earlier queue file, now lost, get the outcome that the store has recorded.
        """
        return self._mending(lambda: self._add(body, list(runs)))

    def _add(self, body: RequestFields, runs: list[tuple[str, int | None, dict[str, str] | None]]) -> bool:
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
            changes = ", ".join(f"{name} = ?" for name in _REPORTED)
            self._db.executemany(f"UPDATE runs SET {changes} WHERE id = ?", _ended_before(body))
        return True

    def ask_cancel(self, ids: Iterable[str], grace_s: float | None) -> None:
        """Mark runs, or every run of a group, for the supervisor to stop. Runs that have ended are left
        alone.
        """
        grace = OWN_GRACE if grace_s is None else max(0.0, grace_s)
        values = [(grace, run_id, run_id) for run_id in ids]
        query = f"UPDATE runs SET cancel_grace_s = ? WHERE (id = ? OR request = ?) AND {_OPEN}"
        self._mending(lambda: self._change(query, values))

    def observe(self, ids: Iterable[str]) -> list[QueueStatus]:
        """The runs with these ids, and all runs of these groups."""
        wanted = list(ids)
        query = f"SELECT {_STATUS_COLUMNS} FROM runs WHERE id = ? OR request = ?"
        return self._mending(
            lambda: [
                QueueStatus._make((*row[:-1], [] if row[-1] == "[]" else json.loads(row[-1])))
                for run_id in wanted
                for row in self._db.execute(query, (run_id, run_id))
            ]
        )

    def load_request(self, request_id: str) -> NodeRequest:
        row = self._db.execute("SELECT body FROM requests WHERE id = ?", (request_id,)).fetchone()
        return node_request.decode(json.loads(row[0]))

    def load_open(self, after_seq: int = 0) -> list[QueuedRun]:
        """Runs that have not ended, oldest first."""
        rows = self._db.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM runs WHERE {_OPEN} AND seq > ? ORDER BY seq", (after_seq,)
        )
        return [QueuedRun(row) for row in rows]

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

    def states_of(self, run_id: str) -> set[str]:
        """The states of a run, or of the runs of a group; empty when the queue does not have it."""
        query = "SELECT DISTINCT state FROM runs WHERE id = ? OR request = ?"
        return {row[0] for row in self._db.execute(query, (run_id, run_id))}

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

    def save(self, entries: Iterable[QueuedRun]) -> None:
        """Write back what the supervisor changed, in one durable transaction."""
        rows = [(*entry.saved(), entry.seq) for entry in entries]
        if not rows:
            return
        changes = ", ".join(f"{name} = ?" for name in _SAVED)
        self._change(f"UPDATE runs SET {changes} WHERE seq = ?", rows)

    def _change(self, query: str, values: Sequence[tuple[object, ...]]) -> None:
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(query, values)


def _ended_before(body: RequestFields) -> list[list[object]]:
    """The runs of the request that ended in an earlier, lost queue, from the list in the store: values of
    _REPORTED, then the id.
    """
    try:
        with open(os.path.join(body.get("store", ""), run_layout.ends_key(body["id"])), "rb") as file:
            lines = list(files.read_lines(file.read()))
    except OSError:
        return []
    return [
        [json.dumps(line[name]) if name in _AS_JSON else line[name] for name in (*_REPORTED, "id")]
        for line in lines
        if all(name in line for name in (*_REPORTED, "id"))
    ]


class Replaced(Exception):
    """The queue's path names another file now. Changes to the old file reach nobody."""


class QueueFile:
    """The path of the queue, with the inode of the file that was opened last."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: int | None = None

    def open(self) -> sqlite3.Connection:
        """Open the file. A damaged file is set aside and replaced by a new one; other errors of sqlite3 pass
        through.
        """
        try:
            connection = _connect(self.path)
        except DAMAGE as error:
            self._file = _inode(self.path)
            if not self.set_aside_if(error):
                raise
            connection = _connect(self.path)
        self._file = _inode(self.path)
        return connection

    def check_same(self) -> None:
        """Raise Replaced when the path names another file. A file that was only removed is still usable by
        the processes that have it open.
        """
        if _inode(self.path) not in (self._file, None):
            raise Replaced(self.path)

    def set_aside_if(self, error: BaseException) -> bool:
        """Whether the error tells of a damaged file, so that the queue has to be opened again. A file that is
        damaged is renamed, and kept for inspection.
        """
        # A corrupt file raises exactly these classes; their subclasses are other errors.
        if type(error) not in DAMAGE:
            return False
        with open(f"{self.path}.aside", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # When the path names another file by now, another process has already set the damaged one
            # aside.
            is_same = self._file is not None and _inode(self.path) == self._file
            if is_same and not _is_intact(self.path):
                suffix = f".damaged-{time.time_ns()}"
                for ending in ("-wal", "-shm", ""):
                    if os.path.exists(self.path + ending):
                        os.replace(self.path + ending, self.path + suffix + ending)
        return True


def _is_intact(path: str) -> bool:
    """Whether a new connection finds no damage: SQLite can take a file for damaged while a process that
    changes it is killed.
    """
    try:
        with closing(sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S)) as db:
            return bool(db.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",))
    except (sqlite3.Error, UnicodeDecodeError):
        return False


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None


def _connect(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
    try:
        _use_wal(db)
        db.execute("PRAGMA synchronous = FULL")
        found = db.execute("PRAGMA user_version").fetchone()[0]
        if found > _VERSION:
            raise sqlite3.OperationalError(f"the queue has version {found}; a newer gofer made it")
        if found < _VERSION:
            with db:
                db.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {_VERSION}")
        os.chmod(path, 0o600)
    except BaseException:
        db.close()
        raise
    return db


def _use_wal(db: sqlite3.Connection) -> None:
    """SQLite's busy timeout does not apply to this change, which the first connections to a new file make at
    the same time.
    """
    pauses = retry_if(lambda error: "locked" in str(error), backoff(0.01, factor=1.0))
    retry(
        lambda: db.execute("PRAGMA journal_mode = WAL"),
        errors=sqlite3.OperationalError,
        pause_s=pauses,
        patience_s=_BUSY_TIMEOUT_S,
    )
