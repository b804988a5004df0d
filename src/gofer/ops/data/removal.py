"""`gofer rm`: count first, then remove. Files are also removed from packed folders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gofer.errors import UsageError
from gofer.ops.data.globs import expand
from gofer.ops.data.list import missing, view
from gofer.ops.data.places import check_changeable, resolve

if TYPE_CHECKING:
    from gofer.ops.data.places import StorePath
    from gofer.ops.session import Session
    from gofer.transfer.packs.store import PackView


class Removal(NamedTuple):
    """One file or folder to remove, with its number of files and bytes."""

    place: StorePath
    files: int
    bytes: int
    store: PackView


def survey(session: Session, words: Sequence[str], target: str | None, *, whole: bool) -> list[Removal]:
    """Count what the words name; nothing is removed. KeyNotFound when there is nothing of that name.

    UsageError for the root of a store, and for a whole mapped folder unless `whole`; StoreError for the files
    of a run.
    """
    places = [one for word in words for one in expand(resolve(session, word, target))]
    for place in places:
        _check(place, whole=whole)
    return [_count(place) for place in places]


def remove(removals: Sequence[Removal]) -> int:
    """Remove, and return the number of files. Files that were added since the count are removed too."""
    return sum(one.store.delete(info.key for info in one.store.list(one.place.key)) for one in removals)


def _check(place: StorePath, *, whole: bool) -> None:
    check_changeable(place)
    if not place.key:
        raise UsageError(
            f"`{place}` is all of the store {place.store.url}, which gofer does not remove",
            hint="name what to remove, such as a folder in it",
        )
    if place.is_whole and not whole:
        raise UsageError(
            f"`{place}` is all of a mapped folder",
            hint=f"name something in it, or add `--recursive`: `gofer rm -r {place}`",
        )


def _count(place: StorePath) -> Removal:
    store = view(place)
    files = size = 0
    for info in store.list(place.key):
        files, size = files + 1, size + info.size
    if not files:
        raise missing(place)
    return Removal(place, files, size, store)
