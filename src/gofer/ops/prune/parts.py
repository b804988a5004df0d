"""Remove temporary files of killed writers from a store that is a folder on another machine.

In a folder on this machine, the store itself removes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gofer.backends.base import Prunable, PruneBounds
from gofer.storage.atomic_write import TEMP_FOLDER

if TYPE_CHECKING:
    from gofer.storage.base import Store

KIND = "part"
_WHY = "its writer was killed"


class PartsPlace:
    """The temporary files in one store that are older than any write can take."""

    def __init__(self, store: Store) -> None:
        self.name = f"parts in {store.url}"
        self._store = store

    def prunable(self, bounds: PruneBounds) -> list[Prunable]:
        return [
            Prunable(self._store.url, KIND, info.key, info.size, info.modified, _WHY)
            for info in self._store.list(TEMP_FOLDER)
            if info.modified < bounds.unused_since
        ]

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        self._store.delete([one.name for one in doomed])
        return list(doomed)
