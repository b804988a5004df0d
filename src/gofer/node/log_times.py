"""Note while the ranks run how long their logs are: so a reader knows later when lines were written."""

from __future__ import annotations

import os
import time
from typing import Sequence

from gofer.core import files, run_layout

# The first hour is noted more often than the rest, so that the notes of a week stay below a megabyte.
_EVERY_S, _LATER_EVERY_S, _LATER_S = 10.0, 60.0, 3600.0
_FIRST_S = 2.0


class LogTimesWriter:
    """Notes the sizes of the logs of a node's ranks in a file of the node's folder. Main thread only."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._sizes: dict[int, int] = {}
        self._began: float | None = None
        self._due_at = 0.0

    def tick(self, ranks: Sequence[int]) -> None:
        """Note the logs that have grown, if it is time for that. Never raises, never waits: a full disk
        loses the note. The first call notes nothing: most commands are short.
        """
        now = time.monotonic()
        if self._began is None:
            self._began, self._due_at = now, now + _FIRST_S
        if now < self._due_at:
            return
        self._due_at = now + (_EVERY_S if now - self._began < _LATER_S else _LATER_EVERY_S)
        sizes = {rank: self._size(rank) for rank in ranks}
        grown = {str(rank): size for rank, size in sizes.items() if size > self._sizes.get(rank, 0)}
        if not grown:
            return
        line = files.encode({"at": time.time(), "sizes": grown}) + b"\n"
        try:
            with open(os.path.join(self._folder, run_layout.LOG_TIMES), "ab") as file:
                file.write(line)
            self._sizes = sizes
        except OSError:
            pass

    def _size(self, rank: int) -> int:
        try:
            return os.stat(os.path.join(self._folder, run_layout.rank_log(rank))).st_size
        except OSError:
            return 0
