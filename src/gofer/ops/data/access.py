"""Read single files of a store, and make URLs that give access to one for a limited time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gofer.errors import UsageError
from gofer.ops.data.list import missing, view
from gofer.storage.base import OnDisk, Signs

if TYPE_CHECKING:
    from gofer.ops.data.places import StorePath


def read(place: StorePath) -> Iterator[bytes]:
    """The bytes of a file in pieces. KeyNotFound, with similar names, when it does not exist; UsageError for
    a folder.
    """
    store = view(place)
    _check_file(place)
    return store.get_stream(place.key)


def address(place: StorePath, expires_s: float) -> str:
    """A URL with which anybody can read the file until it expires. For a store that is a folder, the file's
    own URL.

    UsageError when the file is in a pack, or when the store cannot make such URLs.
    """
    _check_file(place)
    if place.store.head(place.key) is None:
        raise UsageError(
            f"`{place}` is in a pack, and a single file in a pack has no URL",
            hint=f"`gofer cat {place}` prints it; upload it elsewhere without `--pack` to get a URL",
        )
    if isinstance(place.store, Signs):
        return place.store.sign(place.key, expires_s=expires_s)
    if isinstance(place.store, OnDisk):
        return place.store.path(place.key).as_uri()
    raise UsageError(f"the store {place.store.url} has no URLs for single files")


def _check_file(place: StorePath) -> None:
    store = view(place)
    if place.key and store.head(place.key) is not None:
        return
    if place.is_whole or next(store.list(place.key), None) is not None:
        raise UsageError(f"`{place}` is a folder", hint=f"`gofer ls {place}` shows the files in it")
    raise missing(place)
