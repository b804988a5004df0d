"""Where a moment lies in the logs of a run: the byte of a log at which the lines since then begin.

A log has no times: the command itself writes the file. Nodes note the sizes of logs every few seconds
(gofer.node.log_times), so a moment is known to that precision.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from gofer.core import run_layout as names
from gofer.errors import UsageError
from gofer.model.bounds import Count, Seconds
from gofer.ops.logs.log_bytes import LogBytes, StoredLog, read_before, read_forward
from gofer.ops.messages import Message
from gofer.ops.runs.run_folder import read, read_lines
from gofer.text import parse_duration_s
from gofer.tracking.query import moment

if TYPE_CHECKING:
    from gofer.core.secrets.mask import SecretMask
    from gofer.ops.messages import AnyMessage
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

_DAY_S = 24 * 3600.0
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
# A log of a run that was shorter needs no notes.
_SHORT_S = 10.0
# A line that is longer is shown from a point in its middle.
_LONGEST_LINE = 1 << 16


class _Note(msgspec.Struct, frozen=True):
    """One line of `log-times.jsonl`: the sizes of the logs that had grown."""

    at: Seconds
    sizes: dict[str, Count] = {}


class LinesSince:
    """The lines of a run's logs since a moment. StoreError passes through.

    Where nobody knows when the lines of a log were written, all of them count as written since then, with a
    message.
    """

    def __init__(self, store: Store, row: RunRow, since: float, emit: Callable[[AnyMessage], None]) -> None:
        self._store = store
        self._row = row
        self._since = since
        self._emit = emit
        self._has_said = False

    def start_of(self, log: StoredLog) -> int:
        """The offset at which the first line since the moment begins; the size of the log when there is no
        such line.
        """
        info, place = self._store.head(log.key), names.parse_log_key(log.key)
        if info is None or place is None:
            return 0
        if float(info.modified) < self._since:
            return info.size
        attempt, node, rank = place
        notes = list(self._notes(attempt, node, rank))
        before = max((size for at, size in notes if at <= self._since), default=0)
        if before:
            line = read_before(log, before, _LONGEST_LINE)
            return before - len(line) + line.rfind(b"\n") + 1
        if not notes and not self._began_after(attempt):
            self._say_unknown(rank)
        return 0

    def begin_at(self, log: LogBytes) -> int:
        """Like `start_of`, for a follower."""
        return self.start_of(log) if isinstance(log, StoredLog) else 0

    def _notes(self, attempt: int, node: int, rank: int | None) -> Iterator[tuple[float, int]]:
        """(time, size) of the log of a rank, as its node noted them."""
        key = f"{names.node_key(self._row.id, attempt, node)}/{names.LOG_TIMES}"
        for note in read_lines(read(self._store, key) or b"", _Note):
            if str(rank) in note.sizes:
                yield note.at, note.sizes[str(rank)]

    def _began_after(self, attempt: int) -> bool:
        """Whether the attempt began since the moment, or so shortly before it that it makes no difference."""
        times = [one.get("started_at") for one in self._row.attempts if one.get("number") == attempt]
        started = next(iter(times), None) or self._row.started_at
        return started is not None and started >= self._since - _SHORT_S

    def _say_unknown(self, rank: int | None) -> None:
        if not self._has_said:
            what = "the set-up log" if rank is None else f"the log of rank {rank}"
            self._emit(
                Message(
                    f"when the lines of {what} of {self._row.short_id} were written is not known; "
                    "all are shown"
                )
            )
        self._has_said = True


def read_from(log: LogBytes, start: int, mask: SecretMask) -> Iterator[bytes]:
    """The bytes from `start`, masked, also a secret that begins before."""
    first = max(0, start - mask.margin)
    hidden = start - first
    for piece in mask.stream(read_forward(log, first)):
        yield piece[hidden:]
        hidden = max(0, hidden - len(piece))


def parse_since(text: str, now: float | None = None) -> float:
    """The moment that `10m` (ago), `14:05` (the last one) or `2026-03-01 14:05` means; UsageError for other
    texts.
    """
    now = time.time() if now is None else now
    try:
        if clock := _CLOCK.fullmatch(text.strip()):
            hours, minutes, seconds = (int(part or 0) for part in clock.groups())
            day = time.strftime("%Y-%m-%d", time.localtime(now))
            found = moment(f"{day} {hours:02d}:{minutes:02d}:{seconds:02d}", now)[0]
            return found if found <= now else found - _DAY_S
        with suppress(UsageError):
            return now - parse_duration_s(text)
        return moment(text, now)[0]
    except UsageError:
        raise UsageError(
            f"`{text}` is neither a time nor how long ago",
            hint="write it like `10m`, `2h30m`, `14:05`, `yesterday` or `2026-03-01 14:05`",
        ) from None
