"""The logs that a service itself keeps of a run: copies of them here, the end of one, one as it grows.

They are all there is of a job that gofer did not start, and of a run whose agent never came up. Speaks the
`NativeLogs` contract: bytes are asked for by range, from where a copy ends.
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
from gofer.errors import BackendError, CredentialError, GoferError, StoreError
from gofer.ops.files.own_files import make_parent, open_to_extend
from gofer.ops.runs.observe import refresh

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

SOONEST_S, LATEST_S = 2.0, 60.0
_AT_ONCE = 16
# A tail shows at most this: a line may be a progress bar of many megabytes.
_TAIL_LIMIT = 1 << 20
# Beside the copies of a run that had ended when they were made: there will be no more.
_COMPLETE = ".complete"
_NUMBER = re.compile(r"(\d+)\D*$")


def service_of(session: Session, row: RunRow) -> NativeLogs | None:
    """Whoever keeps logs of this run; None when nobody does, or a group is meant."""
    if row.kind == "group":
        return None
    try:
        backend = session.backend_of(row)
    except GoferError:
        return None
    return backend if isinstance(backend, NativeLogs) else None


def fetch(session: Session, row: RunRow, folder: Path, *, remember: bool = False) -> list[Path]:
    """Bring the service's logs to `folder`, under the names it has for them; the copies, the first one first.

    Only what is new is read, all files at once. With `remember`, nobody is asked again about a run that had
    ended when its logs were brought before. Empty where no service keeps logs. BackendError and OSError pass
    through, with what came before kept.
    """
    service = service_of(session, row)
    if service is None:
        return []
    held = _remembered(row, folder) if remember else None
    if held is not None:
        return held
    from concurrent.futures import ThreadPoolExecutor

    names = [name for name in service.native_logs(row.id) if is_safe(name)]
    copies: list[Path] = []
    for name in names:
        make_parent(folder / name, folder)
    if names:
        with ThreadPoolExecutor(min(len(names), _AT_ONCE)) as pool:
            copies = list(pool.map(lambda name: _extend(service, row.id, name, folder / name), names))
    if remember and row.is_final:
        _remember(row, folder, names)
    return copies


def is_mark(path: Path) -> bool:
    """Whether a file among copies is no copy, and says that they are complete."""
    return path.name == _COMPLETE


def _remembered(row: RunRow, folder: Path) -> list[Path] | None:
    """The copies, when they were brought after this very end of the run and are all still there."""
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
    """The last lines of the log to show first, or of the one of that rank; b"" when there is none."""
    service = service_of(session, row)
    name = choose(service.native_logs(row.id), rank) if service else None
    return b"" if service is None or name is None else _end(service, row.id, name, lines)[1]


def read(session: Session, row: RunRow, *, rank: int = 0) -> Iterator[bytes]:
    """All of the log to show first, or of the one of that rank, in pieces, to its end when it is reached."""
    service = service_of(session, row)
    name = choose(service.native_logs(row.id), rank) if service else None
    if service is not None and name is not None:
        yield from _pieces(service, row.id, name, 0)


def copied_tail(copy: Path, lines: int) -> bytes:
    """The last lines of a copy here; b"" when it is gone."""
    with suppress(OSError), open(copy, "rb") as file:
        file.seek(max(file.seek(0, 2) - _window(lines), 0))
        return last_lines(file.read(), lines)
    return b""


def choose(names: Sequence[str], rank: int) -> str | None:
    """The log to show first; for another rank than 0, the one beside it with that number. None without."""
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
    """The last `lines` lines (None: all), then what comes, each byte once, until the run is over. Blocks.

    The service is asked ever more rarely while nothing comes, and soon again after something did. One that
    cannot be reached for a while is named once and asked again.
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
    """Asks the service, and says once when it cannot be reached. `answers` is whether it did last time."""

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
        """What came since, in pieces that follow each other; nothing while there is no log, or no answer."""
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
    """To its end as it is when it is reached."""
    while True:
        piece = service.read_native(run_id, name, start)
        start += len(piece)
        if piece:
            yield piece
        if len(piece) < NATIVE_PIECE:
            return


def _end(service: NativeLogs, run_id: str, name: str, lines: int) -> tuple[int, bytes]:
    """Where the log ends now, and its last lines; no more is read than such lines may be long."""
    start = max((service.native_size(run_id, name) or 0) - _window(lines), 0)
    data = b"".join(_pieces(service, run_id, name, start))
    return start + len(data), last_lines(data, lines)


def _window(lines: int) -> int:
    return max(_TAIL_LIMIT, lines << 10)


def _extend(service: NativeLogs, run_id: str, name: str, path: Path) -> Path:
    """Add what the copy lacks, under a lock; one that is longer than the log itself is of another log.

    A copy of a log that is gone is kept.
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
    """Whether a file of that name lies below the folder it is brought to."""
    return {"", ".", ".."}.isdisjoint(name.split("/")) and "\0" not in name and len(name) < 1000


def last_lines(data: bytes, lines: int) -> bytes:
    """The last `lines` lines; a last line without its newline counts as one."""
    if lines <= 0:
        return b""
    at = len(data) - data.endswith(b"\n")
    for _ in range(lines):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return data
    return data[at + 1 :]
