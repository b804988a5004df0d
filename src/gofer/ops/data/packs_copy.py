"""Copy a packed folder between stores without unpacking it: first the packs, then the index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.ops.data.steps import StepsResult, Transfer, Work
from gofer.transfer import StoreEnd
from gofer.transfer.packs.view import generation_of, index_key, packs_key

if TYPE_CHECKING:
    from gofer.storage.base import Store
    from gofer.transfer import TransferOptions, TransferProgress


class PacksCopy:
    """Copies the packed folder `root` of one store to the folder `goal` of another, which must not be
    packed.
    """

    def __init__(
        self, source: Store, root: str, destination: Store, goal: str, options: TransferOptions, name: str
    ) -> None:
        plain = options._replace(include=(), exclude=(), delete=False)
        ends = ((packs_key(root), packs_key(goal)), (index_key(root), index_key(goal)))
        self._packs, self._index = (
            Transfer(StoreEnd(source, one), StoreEnd(destination, other), plain, name) for one, other in ends
        )

    def compare(self, progress: TransferProgress) -> Work:
        packs, index = self._packs.compare(progress), self._index.compare(progress)
        return Work(*(one + other for one, other in zip(packs, index, strict=True)))

    def preview(self) -> Iterator[tuple[str, str, int]]:
        yield from self._packs.preview()
        yield from self._index.preview()

    def go(self, progress: TransferProgress, state: Path) -> StepsResult:
        """Copy. The index is copied only after all packs, so that it never names a missing pack."""
        outcome = self._packs.go(progress, state)
        return outcome.joined(self._index.go(progress, state)) if outcome.ok else outcome


def packed_roots(store: Store, prefix: str) -> list[str]:
    """The packed folders at and below a folder. Lists all objects below it."""
    found = (generation_of(info.key) for info in store.list(prefix))
    return sorted({one[0] for one in found if one})
