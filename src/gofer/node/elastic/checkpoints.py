"""Whether the ranks have completed a checkpoint since they were asked for one, as the files show it."""

from __future__ import annotations

import fnmatch
import os
import time
from typing import Dict, Iterator, List, Tuple

# The names by which frameworks call checkpoints: of files, and of folders with a slash at the end.
USUAL = ("*.ckpt", "*.pt", "*.pth", "*.safetensors", "checkpoint*/")
_UNCHANGED_S = 2.0
_LOOK_S = 0.3
_MOST_FILES = 20_000


class CheckpointWatch:
    """Looks for files below `folder` that fit one of `patterns` and were completed after this was made.

    A file is complete when it was renamed to its name, or has not changed for two seconds. A file system may
    give a file that is written and renamed at once one time for both; then the new inode of a known name
    tells, and the file has to stay the same until the next look.
    """

    def __init__(self, folder: str, patterns: List[str]) -> None:
        self._folder = folder
        self._patterns = patterns
        self._look_at = 0.0
        self._before = dict(self._candidates())
        self._changed_at: Dict[str, Tuple[Tuple[int, int, int], float]] = {}

    def look(self) -> bool:
        """Whether there is a new checkpoint. Reads the folder at most a few times a second."""
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + _LOOK_S
        for path, stamp in self._candidates():
            if self._before.get(path) == stamp:
                continue
            known, since = self._changed_at.get(path, (stamp, now))
            if known[0] != stamp[0]:
                return True  # a newer file has the name already, so the last one was complete
            if known != stamp:
                since = now
            self._changed_at[path] = (stamp, since)
            if _was_renamed(path) or now - since >= self._rest_s(path, stamp):
                return True
        return False

    def _rest_s(self, path: str, stamp: Tuple[int, int, int]) -> float:
        """How long the file has to stay as it is before it counts as complete."""
        before = self._before.get(path)
        return _LOOK_S if before is not None and before[0] != stamp[0] else _UNCHANGED_S

    def _candidates(self) -> Iterator[Tuple[str, Tuple[int, int, int]]]:
        seen = 0
        for folder, _, names in os.walk(self._folder):
            inside = os.path.relpath(folder, self._folder)
            for name in names:
                seen += 1
                if seen > _MOST_FILES:
                    return
                path = os.path.join(folder, name)
                if self._fits(inside, name):
                    try:
                        found = os.stat(path)
                    except OSError:
                        continue
                    yield path, (found.st_ino, found.st_size, found.st_mtime_ns)

    def _fits(self, inside: str, name: str) -> bool:
        folders = [] if inside == "." else inside.split(os.sep)
        for pattern in self._patterns:
            if pattern.endswith("/"):
                if any(fnmatch.fnmatch(folder, pattern[:-1]) for folder in folders):
                    return True
            elif fnmatch.fnmatch(name, pattern):
                return True
        return False


def _was_renamed(path: str) -> bool:
    """Whether the file got its name after it was written: a rename changes the second time only."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    return found.st_size > 0 and found.st_ctime_ns > found.st_mtime_ns
