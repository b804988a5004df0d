"""Creates, opens and locks the file of the ledger, and explains the errors of SQLite."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gofer.core import private_folder
from gofer.core.retry import backoff, retry, retry_if
from gofer.errors import LedgerCorrupt, LedgerError
from gofer.tracking.rows import DamagedLine
from gofer.tracking.schema import is_current, migrate

BUSY_TIMEOUT_S = 30.0

_ELSEWHERE = "free some space or correct the permissions, or set GOFER_HOME to a writable folder"
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
# The messages of SQLite and the sqlite3 module about text that gofer did not write.
_NOT_TEXT = ("Could not decode to UTF-8", "malformed JSON")
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_UNWRITABLE = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
}


def connect(path: Path) -> sqlite3.Connection:
    """Open the ledger in WAL mode with the newest schema; create it with its folders (0700, the file 0600).

    Several processes may do this at once for a file that does not exist yet. Blocking.
    """
    with explained(path):
        _make_file(path)
        # isolation_level=None: gofer begins and ends its transactions itself.
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the file system inside the block into the LedgerError family."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(path, error) from error
    except (DamagedLine, UnicodeDecodeError) as error:
        # SQLite quotes bytes of a damaged schema in its message, and sqlite3 fails to decode that message.
        raise _damaged(path, error) from error
    except OSError as error:
        raise LedgerError(
            f"cannot open the ledger {path}: {error.strerror or error}", hint=_ELSEWHERE
        ) from error


@contextmanager
def transaction(connection: sqlite3.Connection, path: Path, *, durable: bool) -> Iterator[None]:
    """Run the block in a transaction. One writer at a time; waits up to BUSY_TIMEOUT_S for others.

    A killed process leaves no partial change. With `durable`, the change also survives a power cut.
    """
    with explained(path):
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _make_file(path: Path) -> None:
    private_folder.make(str(path.parent))
    if not path.exists():
        # Created here and not by SQLite, which would use the umask.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Prepare a connection, waiting for other processes.

    The wait is gofer's own, because SQLite's busy timeout does not apply to the change to WAL mode.
    """

    def prepare() -> None:
        if not is_current(connection, path):
            connection.execute("PRAGMA journal_mode = WAL")
            migrate(connection, path)

    pauses = retry_if(lambda error: _code(error) in _BUSY, backoff(0.01, factor=1.0))
    retry(prepare, errors=sqlite3.OperationalError, pause_s=pauses, patience_s=BUSY_TIMEOUT_S)


def _explain(path: Path, error: sqlite3.Error) -> LedgerError:
    code = _code(error)
    if code in _CORRUPT or str(error).startswith(_NOT_TEXT):
        return _damaged(path, error)
    if code in _BUSY:
        return LedgerError(
            f"another process locked the ledger {path} for {BUSY_TIMEOUT_S:.0f} s",
            hint="end the process that locks it and try again",
        )
    if code in _UNWRITABLE:
        return LedgerError(f"cannot write the ledger {path}: {error}", hint=_ELSEWHERE)
    return LedgerError(f"the ledger {path} failed: {error}")


def _damaged(path: Path, error: Exception) -> LedgerCorrupt:
    return LedgerCorrupt(f"the ledger {path} is damaged: {error}", hint="`gofer ledger rebuild`")


def _code(error: sqlite3.Error) -> int:
    """The primary result code, which is the low byte of the extended one."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
