"""The file of the queue: create it, bring its tables up to date, and set it aside when it is damaged."""

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


# What a damaged file raises. SQLite quotes bytes of the file in its message; when these are not UTF-8, the
# module sqlite3 raises UnicodeDecodeError.
DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)


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
        """Whether the error means that the file is damaged. If so, the file is renamed, and kept for
        inspection.
        """
        # A corrupt file raises exactly these classes; their subclasses are other errors.
        if type(error) not in DAMAGE:
            return False
        with open(f"{self.path}.aside", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # When the path names another file by now, another process has already set the damaged one
            # aside.
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
