"""What the first rank of a node writes, on the agent's own output too, where the service's log shows it."""

from __future__ import annotations

import os
import select
from typing import Dict, List

from gofer.core import files
from gofer.node.helper_process import Child

_LOOK_S = 0.3
_PIECE = 256 * 1024
# Whoever reads the output may be slow or stuck; the run does not wait for it.
_FAREWELL_S = 10.0


class Echo:
    """Copies what these files come to hold to this process's output, until `end`. They need not be there."""

    def __init__(self, paths: List[str]) -> None:
        self._child = Child(lambda reader: _follow(reader, paths))
        self.pid = self._child.pid

    def end(self) -> None:
        """With all that is in the files now."""
        self._child.finish(within_s=_FAREWELL_S)


def _follow(reader: int, paths: List[str]) -> bool:
    done: Dict[str, int] = {}
    is_over = False
    while not is_over:
        is_over = bool(select.select([reader], [], [], _LOOK_S)[0])
        for path in paths:
            done[path] = _copy(path, done.get(path, 0))
    return True


def _copy(path: str, start: int) -> int:
    """Where the next copy is to begin. OSError when nobody reads any more."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return start
    try:
        while True:
            data = os.pread(fd, _PIECE, start)
            if not data:
                return start
            files.write_all(1, data)
            start += len(data)
    finally:
        os.close(fd)
