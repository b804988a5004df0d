"""The file of the queue: made, brought up to date, and set aside when it is damaged."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time

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


class Replaced(Exception):
    """Another file has the queue's name now: who has the old one open talks to nobody."""


class QueueFile:
    """One path, and which file it was when it was opened last."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: int | None = None

    def open(self) -> sqlite3.Connection:
        """A file that cannot be opened for damage is set aside; other errors of sqlite3 pass through."""
        try:
            connection = _connect(self.path)
        except sqlite3.DatabaseError as error:
            self._file = _inode(self.path)
            if not self.set_aside_if(error):
                raise
            connection = _connect(self.path)
        self._file = _inode(self.path)
        return connection

    def check_same(self) -> None:
        """Replaced when there is another file. One that is gone may still be worked off by who has it."""
        if _inode(self.path) not in (self._file, None):
            raise Replaced(self.path)

    def set_aside_if(self, error: BaseException) -> bool:
        """Whether the error tells of damage; then the file is out of the way, for whoever wants to see it."""
        if type(error) is not sqlite3.DatabaseError:  # the class of corrupt files, and not of its subclasses
            return False
        with open(f"{self.path}.aside", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Another file that has the name by now is a good one, made by whoever was faster.
            if self._file is not None and _inode(self.path) == self._file:
                suffix = f".damaged-{time.time_ns()}"
                for ending in ("-wal", "-shm", ""):
                    if os.path.exists(self.path + ending):
                        os.replace(self.path + ending, self.path + suffix + ending)
        return True


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None


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
