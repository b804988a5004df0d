"""The logs that a service itself keeps of a run: copies of them here, the end of one, one as it grows.

They are all there is of a job that gofer did not start, and of a run whose agent never came up. Speaks the
`NativeLogs` contract: bytes are asked for by range, from where a copy ends.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.backends.base import NativeLogs
from gofer.errors import BackendError, CredentialError, GoferError, StoreError
from gofer.ops.observe import refresh

if TYPE_CHECKING:
    from gofer.backends.base import NativeLog
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

SOONEST_S, LATEST_S = 2.0, 60.0
_AT_ONCE = 16
# A tail shows at most this: a line may be a progress bar of many megabytes.
_TAIL_LIMIT = 1 << 20
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


def fetch(session: Session, row: RunRow, folder: Path) -> list[Path]:
    """Bring the service's logs to `folder`, under the names it has for them; the copies, the first one first.

    Only what is new is read, all files at once. Empty where no service keeps logs. BackendError and OSError
    pass through, with what came before kept.
    """
    service = service_of(session, row)
    if service is None:
        return []
    from concurrent.futures import ThreadPoolExecutor

    logs = [log for log in service.native_logs(row.id) if is_safe(log.name)]
    if not logs:
        return []
    with ThreadPoolExecutor(min(len(logs), _AT_ONCE)) as pool:
        return list(pool.map(lambda log: _extend(service, row.id, log, folder / log.name), logs))


def tail(session: Session, row: RunRow, *, lines: int, rank: int = 0) -> bytes:
    """The last lines of the log to show first, or of the one of that rank; b"" when there is none."""
    service = service_of(session, row)
    log = choose(service.native_logs(row.id), rank) if service else None
    if service is None or log is None:
        return b""
    start = max((log.size or 0) - max(_TAIL_LIMIT, lines << 10), 0)
    return last_lines(service.read_native(row.id, log.name, start), lines)


def read(session: Session, row: RunRow, *, rank: int = 0) -> bytes:
    """All of the log to show first, or of the one of that rank, as it is now."""
    service = service_of(session, row)
    log = choose(service.native_logs(row.id), rank) if service else None
    return b"" if service is None or log is None else service.read_native(row.id, log.name, 0)


def choose(logs: Sequence[NativeLog], rank: int) -> NativeLog | None:
    """The log to show first; for another rank than 0, the one beside it with that number. None without."""
    first = next(iter(logs), None)
    if first is None or rank == 0:
        return first
    stem = _NUMBER.sub("", first.name)
    near = [log for log in logs if _NUMBER.sub("", log.name) == stem]
    return next((log for log in near if (found := _NUMBER.search(log.name)) and int(found[1]) == rank), None)


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
    watch = _Watch(session, row, rank)
    position, wait_s = 0, SOONEST_S
    while True:
        over = watch.is_over()
        data = watch.read(position)
        if data:
            position, wait_s = position + len(data), SOONEST_S
            yield data if lines is None else last_lines(data, lines)
            lines = None
        if over and watch.answers:
            return
        sleep(wait_s)
        wait_s = wait_s if data else min(wait_s * 1.5, LATEST_S)


class _Watch:
    """Asks the service, and says once when it cannot be reached. `answers` is whether it did last time."""

    def __init__(self, session: Session, row: RunRow, rank: int) -> None:
        self._session, self._row, self._rank = session, row, rank
        self._said = ""
        self.answers = True

    def is_over(self) -> bool:
        self._try(lambda: refresh(self._session, [self._row]))
        self._row = self._session.ledger.get(self._row.id) or self._row
        return self._row.is_final

    def read(self, start: int) -> bytes:
        """What the log holds behind `start`; nothing while there is no log, or no answer."""
        pieces: list[bytes] = []
        self.answers = self._try(lambda: pieces.append(self._ask(start)))
        return b"".join(pieces)

    def _ask(self, start: int) -> bytes:
        service = service_of(self._session, self._row)
        log = choose(service.native_logs(self._row.id), self._rank) if service else None
        return b"" if service is None or log is None else service.read_native(self._row.id, log.name, start)

    def _try(self, ask: Callable[[], object]) -> bool:
        try:
            ask()
        except (BackendError, StoreError, CredentialError) as error:
            if error.message != self._said:
                self._session.say(f"{error.message}; still following")
            self._said = error.message
            return False
        return True


def _extend(service: NativeLogs, run_id: str, log: NativeLog, path: Path) -> Path:
    """Add what the copy lacks, under a lock; one that is longer than the log itself is of another log."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, 2)
        if log.size is not None and size > log.size:
            file.truncate(0)
            size = 0
        if log.size is None or log.size > size:
            file.write(service.read_native(run_id, log.name, size))
    return path


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
