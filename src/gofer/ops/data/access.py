"""Single files of a store: their bytes, and an address that opens one for a while."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gofer.errors import UsageError
from gofer.ops.data.list import missing, view
from gofer.storage.base import OnDisk, Signs

if TYPE_CHECKING:
    from gofer.ops.data.places import StorePath


def read(place: StorePath) -> Iterator[bytes]:
    """A file's bytes in pieces; KeyNotFound with near names when there is none, UsageError for a folder."""
    store = view(place)
    _check_file(place)
    return store.get_stream(place.key)


def address(place: StorePath, expires_s: float) -> str:
    """A URL by which anybody can read the file until it expires; that of the file itself in a folder's store.

    UsageError when the file lies in a pack, or the store has no such addresses.
    """
    _check_file(place)
    if place.store.head(place.key) is None:
        raise UsageError(
            f"`{place}` lies in a pack, which has no address for a single file",
            hint=f"`gofer cat {place}` prints it; `gofer u` it elsewhere without `--pack`",
        )
    if isinstance(place.store, Signs):
        return place.store.sign(place.key, expires_s=expires_s)
    if isinstance(place.store, OnDisk):
        return place.store.path(place.key).as_uri()
    raise UsageError(f"the store {place.store.url} has no addresses for single files")


def _check_file(place: StorePath) -> None:
    store = view(place)
    if place.key and store.head(place.key) is not None:
        return
    if place.is_whole or next(store.list(place.key), None) is not None:
        raise UsageError(f"`{place}` is a folder", hint=f"`gofer ls {place}` shows the files in it")
    raise missing(place)
