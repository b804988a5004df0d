"""Read the logs that a service keeps of a run: copy them, show the end of one, follow one.

A job that gofer did not start, and a run whose agent did not start, have only these logs. Uses the
`NativeLogs` contract: bytes are read by range, from the end of the copy on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from gofer.backends.base import NATIVE_PIECE, NativeLogs
from gofer.core.files import encode, read_json, write_whole
from gofer.core.parallel import parallel_map
from gofer.errors import BackendError, CredentialError, GoferError, StoreError
from gofer.ops.files.own_files import make_parent, open_to_extend
from gofer.ops.runs.observe import refresh

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

SOONEST_S, LATEST_S = 2.0, 60.0
_AT_ONCE = 16
# A tail has at most this size, since a progress bar can be one line of many megabytes.
_TAIL_LIMIT = 1 << 20
# This file marks copies as complete: they were made after the run had ended.
_COMPLETE = ".complete"
_NUMBER = re.compile(r"(\d+)\D*$")


def service_of(session: Session, row: RunRow) -> NativeLogs | None:
    """The backend that has service logs of this run; None when there is none, and for a group."""
    if row.kind == "group":
        return None
    try:
        backend = session.backend_of(row)
    except GoferError:
        return None
    return backend if isinstance(backend, NativeLogs) else None


def fetch(session: Session, row: RunRow, folder: Path, *, remember: bool = False) -> list[Path]:
    """Copy the service's logs to `folder`, under the service's names; the paths, the log to show first.

    Only new bytes are read, from all files in parallel. With `remember`, the service is not called again once
    the logs of an ended run were copied. Empty when no service has logs. BackendError and OSError pass
    through; what was copied stays.
    """
    service = service_of(session, row)
    if service is None:
        return []
    held = _remembered(row, folder) if remember else None
    if held is not None:
        return held
    names = [name for name in service.native_logs(row.id) if is_safe(name)]
    for name in names:
        make_parent(folder / name, folder)
    copies = parallel_map(lambda name: _extend(service, row.id, name, folder / name), names, at_once=_AT_ONCE)
    if remember and row.is_final:
        _remember(row, folder, names)
    return copies


def is_mark(path: Path) -> bool:
    """Whether a file among the copies is the mark that says that they are complete."""
    return path.name == _COMPLETE


def _remembered(row: RunRow, folder: Path) -> list[Path] | None:
    """The copies, if they were made after the run's present end and all still exist; else None."""
    held = read_json(str(folder / _COMPLETE)) if row.is_final else None
    if not isinstance(held, dict) or held.get("ended_at") != row.ended_at:
        return None
    names = held.get("logs")
    if not isinstance(names, list) or not all(isinstance(name, str) and is_safe(name) for name in names):
        return None
    copies = [folder / name for name in names]
    return copies if all(path.is_file() for path in copies) else None


def _remember(row: RunRow, folder: Path, names: Sequence[str]) -> None:
    make_parent(folder / _COMPLETE, folder)
    write_whole(str(folder / _COMPLETE), encode({"ended_at": row.ended_at, "logs": list(names)}) + b"\n")


def tail(session: Session, row: RunRow, *, lines: int, rank: int = 0) -> bytes:
    """The last lines of the log to show first, or of a rank's log; b"" when there is none."""
    service = service_of(session, row)
    name = choose(service.native_logs(row.id), rank) if service else None
    return b"" if service is None or name is None else _end(service, row.id, name, lines)[1]


def read(session: Session, row: RunRow, *, rank: int = 0) -> Iterator[bytes]:
    """The whole log to show first, or a rank's log, in pieces."""
    service = service_of(session, row)
    name = choose(service.native_logs(row.id), rank) if service else None
    if service is not None and name is not None:
        yield from _pieces(service, row.id, name, 0)


def copied_tail(copy: Path, lines: int) -> bytes:
    """The last lines of a local copy; b"" when it does not exist."""
    with suppress(OSError), open(copy, "rb") as file:
        file.seek(max(file.seek(0, 2) - _window(lines), 0))
        return last_lines(file.read(), lines)
    return b""


def choose(names: Sequence[str], rank: int) -> str | None:
    """The log to show first; for another rank than 0, the log with the same name and that number. None when
    there is none.
    """
    first = next(iter(names), None)
    if first is None or rank == 0:
        return first
    stem = _NUMBER.sub("", first)
    near = [name for name in names if _NUMBER.sub("", name) == stem]
    return next((name for name in near if (found := _NUMBER.search(name)) and int(found[1]) == rank), None)


def follow(
    session: Session,
    row: RunRow,
    *,
    lines: int | None,
    rank: int = 0,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[bytes]:
    """The last `lines` lines (None: all), then new output, each byte once, until the run is over. Blocks.

    The service is called at growing intervals while nothing is new, and soon again after new output. A
    service that cannot be reached is reported once, and called again.
    """
    watch = _Watch(session, row, rank, lines)
    wait_s = SOONEST_S
    while True:
        over, came = watch.is_over(), False
        for piece in watch.news():
            came = True
            yield piece
        if over and watch.answers:
            return
        wait_s = SOONEST_S if came else wait_s
        sleep(wait_s)
        wait_s = wait_s if came else min(wait_s * 1.5, LATEST_S)


class _Watch:
    """Calls the service, and reports once when it cannot be reached. `answers`: the last call succeeded."""

    def __init__(self, session: Session, row: RunRow, rank: int, lines: int | None) -> None:
        self._session, self._row, self._rank = session, row, rank
        self._lines = lines
        self._position = 0
        self._said = ""
        self.answers = True

    def is_over(self) -> bool:
        self._try(lambda: refresh(self._session, [self._row]))
        self._row = self._session.ledger.get(self._row.id) or self._row
        return self._row.is_final

    def news(self) -> Iterator[bytes]:
        """New output in pieces; nothing while there is no log or the service does not answer."""
        found: list[tuple[NativeLogs, str]] = []
        self.answers = self._try(lambda: found.extend(self._log()))
        for service, name in found:
            while piece := self._piece(service, name):
                yield piece
                if len(piece) < NATIVE_PIECE:
                    return

    def _piece(self, service: NativeLogs, name: str) -> bytes:
        got: list[bytes] = []
        self.answers = self._try(lambda: got.append(self._next(service, name)))
        return b"".join(got)

    def _log(self) -> list[tuple[NativeLogs, str]]:
        service = service_of(self._session, self._row)
        name = choose(service.native_logs(self._row.id), self._rank) if service else None
        return [] if service is None or name is None else [(service, name)]

    def _next(self, service: NativeLogs, name: str) -> bytes:
        if self._lines is None:
            piece = service.read_native(self._row.id, name, self._position)
            self._position += len(piece)
            return piece
        self._position, end = _end(service, self._row.id, name, self._lines)
        self._lines = None if self._position else self._lines
        return end

    def _try(self, ask: Callable[[], object]) -> bool:
        try:
            ask()
        except (BackendError, StoreError, CredentialError) as error:
            if error.message != self._said:
                self._session.say(f"{error.message}; still following")
            self._said = error.message
            return False
        return True


def _pieces(service: NativeLogs, run_id: str, name: str, start: int) -> Iterator[bytes]:
    """The bytes of a log from `start` to its end."""
    while True:
        piece = service.read_native(run_id, name, start)
        start += len(piece)
        if piece:
            yield piece
        if len(piece) < NATIVE_PIECE:
            return


def _end(service: NativeLogs, run_id: str, name: str, lines: int) -> tuple[int, bytes]:
    """The present size of the log, and its last lines. Reads only the end of the log."""
    start = max((service.native_size(run_id, name) or 0) - _window(lines), 0)
    data = b"".join(_pieces(service, run_id, name, start))
    return start + len(data), last_lines(data, lines)


def _window(lines: int) -> int:
    return max(_TAIL_LIMIT, lines << 10)


def _extend(service: NativeLogs, run_id: str, name: str, path: Path) -> Path:
    """Append the missing bytes to a copy, under a lock. A copy that is longer than the log is replaced.

    A copy of a log that no longer exists is kept.
    """
    import fcntl

    with open_to_extend(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, 2)
        came = _append(file, _pieces(service, run_id, name, size))
        there = service.native_size(run_id, name) if size and not came else None
        if there is not None and there < size:
            file.truncate(0)
            file.seek(0)
            _append(file, _pieces(service, run_id, name, 0))
    return path


def _append(file: BinaryIO, pieces: Iterator[bytes]) -> int:
    return sum(file.write(piece) for piece in pieces)


def is_safe(name: str) -> bool:
    """Whether a file of this name stays inside the destination folder."""
    return {"", ".", ".."}.isdisjoint(name.split("/")) and "\0" not in name and len(name) < 1000


def last_lines(data: bytes, lines: int) -> bytes:
    """The last `lines` lines. A last line without a newline counts as a line."""
    if lines <= 0:
        return b""
    at = len(data) - data.endswith(b"\n")
    for _ in range(lines):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return data
    return data[at + 1 :]
