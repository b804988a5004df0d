"""Copy the log of a node's first rank to the agent's own output, which the service shows as its log."""

from __future__ import annotations

import os
import select
from typing import Dict, List

from gofer.core import files
from gofer.node.helper_process import HelperProcess

_LOOK_S = 0.3
_PIECE = 256 * 1024
# The reader of the output may be slow or stuck; the run waits no longer than this for it.
_FAREWELL_S = 10.0


class LogForwarder:
    """Copies everything that is written to these files to this process's output, until `end`. The files need
    not exist yet.
    """

    def __init__(self, paths: List[str]) -> None:
        self._child = HelperProcess(lambda reader: _follow(reader, paths))
        self.pid = self._child.pid

    def end(self) -> None:
        """Copy what is in the files now, and stop. Blocks for a few seconds at most."""
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
    """Copy a file from `start` on; the offset for the next call. OSError when the reader of the output is
    gone.
    """
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
