"""The byte counter of a group whose rows run on nodes of their own: a number in an object of the store.

The number is changed by compare and swap. So the limit of the group holds exactly, and a row that keeps
little leaves the rest to the others. This costs two reads and one write for each row that has files to keep.
"""

from __future__ import annotations

import random
from typing import Optional, Tuple

from gofer.core.retry import retry
from gofer.node.kept.tally import ByteTally, share_of
from gofer.objects.base import ObjectService
from gofer.objects.facts import Exists, ObjectNotFound, ObjectsError, VersionMismatch

# How long a row tries to update the number: rows that end at the same moment compete for it.
_LONGEST_S = 10.0
_LONGEST_PAUSE_S = 1.0


class StoreTally(ByteTally):
    """The counter for a group of `rows` rows.

    Blocks for ten seconds at most. A row that cannot count by then, because the store does not answer or too
    many rows end at once, gets its even share of `most`.
    """

    def __init__(self, objects: ObjectService, key: str, rows: int) -> None:
        self._objects = objects
        self._key = key
        self._rows = max(rows, 1)

    def take(self, size: int, most: int, *, whole: bool) -> int:
        def add() -> int:
            total, version = self._read()
            added = share_of(size, most - total, whole=whole)
            if added:
                self._objects.put(self._key, b"%d" % (total + added), new=version is None, etag=version)
            return added

        lost_race = (ObjectNotFound, VersionMismatch, Exists)
        try:
            return retry(add, errors=lost_race, pause_s=_random_pause_s, patience_s=_LONGEST_S)
        except (ObjectsError, ValueError):
            return share_of(size, most // self._rows, whole=whole)

    def _read(self) -> Tuple[int, Optional[str]]:
        """The number and its version. The version is read first, so that a change between the two reads makes
        the write fail.
        """
        info = self._objects.head(self._key)
        return (0, None) if info is None else (int(self._objects.get(self._key)), info.etag)


def _random_pause_s(error: ObjectsError, failures: int) -> float:
    return random.uniform(0, min(0.05 * 2 ** (failures - 1), _LONGEST_PAUSE_S))
