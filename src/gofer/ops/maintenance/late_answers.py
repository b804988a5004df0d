"""Wait in the background for clusters that a command did not wait for, and write the answers to the ledger.

`gofer list` and `gofer q` end after three seconds. Without this program, they would never show the present
state of runs on a cluster that always needs longer. One program of a user runs at a time; it ends when all
clusters have answered, and at the latest after two minutes.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.errors import GoferError
from gofer.ops.runs.observe import TimedRefresh
from gofer.ops.session import Session
from gofer.transport.process import start_in_background

if TYPE_CHECKING:
    from gofer.ops.messages import AnyMessage

_LIMIT_S = 120.0
_LOCK = "late-answers.lock"


def start(session: Session) -> None:
    """Start the program, unless it runs already or this process is part of a run. Does not wait, and ignores
    errors: without the program, answers are only older.
    """
    if "GOFER_RUN_ID" in session.environ:
        return
    # -P: a module in the person's folder must not be taken for one of gofer's.
    argv = [sys.executable, "-P", "-m", __name__, str(session.folder)]
    with suppress(OSError, GoferError), _lock(session) as is_free:
        if is_free:
            start_in_background(argv, env=session.environ)


@contextmanager
def _lock(session: Session) -> Iterator[bool]:
    """Whether no other process has the lock; then this process has it in the body of the `with`."""
    folder = session.paths.cache_dir
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(folder / _LOCK, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _ignore(message: AnyMessage) -> None:
    """Nobody reads the messages of a program in the background."""


def main(folder: str) -> None:
    """Refresh all runs that have not ended. A second program ends at once."""
    with Session(Path(folder), emit=_ignore) as session, suppress(GoferError, OSError):
        _refresh_alone(session)


def _refresh_alone(session: Session) -> None:
    with _lock(session) as is_free:
        if is_free:
            TimedRefresh(session, _LIMIT_S).refresh()


if __name__ == "__main__":
    main(sys.argv[1])
