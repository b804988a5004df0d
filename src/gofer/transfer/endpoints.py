"""The two ends of a transfer: a local file or folder, and an object or a folder in a store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gofer.errors import StoreError, UsageError
from gofer.storage.base import ObjectInfo, OnDisk, Store, no_such_key
from gofer.transfer.entries import FileEntry, is_executable, read_mtime_ns
from gofer.transfer.walk import FileSelection, NoteFile, Walk, describe


class LocalEnd(NamedTuple):
    """A file or folder of this machine, which may not exist yet."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def entry(self) -> FileEntry | None:
        """The file that this end is; None when it is not a file."""
        try:
            return describe("", os.stat(self.path)) if self.path.is_file() else None
        except FileNotFoundError:
            return None

    def walk(self, selection: FileSelection, note: NoteFile, *, follow: bool) -> Walk:
        return Walk(os.fsencode(self.path), selection, note, follow)


class StoreEnd(NamedTuple):
    """The object `prefix`, or everything in the folder `prefix`; the whole store when `prefix` is empty."""

    store: Store
    prefix: str = ""

    def __str__(self) -> str:
        url = self.store.url.rstrip("/")
        return f"{url}/{self.prefix}" if self.prefix else url

    def key(self, path: str) -> str:
        """The key of a path below this end."""
        if not path:
            return self.prefix
        return f"{self.prefix}/{path}" if self.prefix else path

    def entry(self) -> FileEntry | None:
        """The object that this end is; None when there is none."""
        info = self.store.head(self.prefix) if self.prefix else None
        return to_entry("", info) if info else None

    def current_entry(self, entry: FileEntry) -> FileEntry:
        """The object as it is now; KeyNotFound when it is gone.

        The kind of its time stays that of the listing. With another kind, the next comparison would find a
        difference.
        """
        key = self.key(entry.path)
        info = self.store.head(key)
        if info is None:
            raise no_such_key(self.store.url, key)
        found = to_entry(entry.path, info)
        if found.md5 is None and found.etag and found.etag == entry.etag:
            found = found._replace(md5=entry.md5)  # a listing may contain more than the answer to HEAD
        if found.recorded and not entry.recorded:
            return found._replace(mtime_ns=_arrival_ns(info), recorded=False)
        return found

    def entries(self, selection: FileSelection) -> Iterator[FileEntry]:
        """The entries in the order of the store's listing.

        An object that is itself `prefix` has an empty path.
        """
        skip = len(self.prefix) + 1 if self.prefix else 0
        for info in self.store.list(self.prefix):
            path = info.key[skip:]
            if selection.selects(os.fsencode(path)):
                yield to_entry(path, info)


End = LocalEnd | StoreEnd


def to_entry(path: str, info: ObjectInfo) -> FileEntry:
    """The entry of an object."""
    words = info.metadata or {}
    recorded_ns = read_mtime_ns(words) if words else None
    mtime_ns = _arrival_ns(info) if recorded_ns is None else recorded_ns
    return FileEntry(
        path,
        info.size,
        mtime_ns,
        recorded_ns is not None,
        bool(words) and is_executable(words),
        info.md5,
        info.etag,
    )


def _arrival_ns(info: ObjectInfo) -> int:
    """When the object arrived in the store.

    In microseconds, because a float holds no more for present times.
    """
    return round(info.modified * 1e6) * 1000


def check_apart(source: End, destination: End) -> None:
    """UsageError when one end is inside the other, because the transfer would find its own output."""
    first, second = _place(source), _place(destination)
    if first == second or first.startswith(f"{second}/") or second.startswith(f"{first}/"):
        raise UsageError(f"`{source}` and `{destination}` overlap", hint="name two separate places")


def _place(end: End) -> str:
    """A URL for the end that is the same however the end was named."""
    if isinstance(end, LocalEnd):
        return Path(os.path.realpath(end.path)).as_uri()
    if isinstance(end.store, OnDisk):
        try:
            return Path(os.path.realpath(end.store.path(end.prefix))).as_uri()
        except StoreError:  # an empty prefix is not a key: the end is the whole store
            return Path(os.path.realpath(end.store.path("x"))).parent.as_uri()
    if "@" in end.store.url:  # the URL names the account too, so it is unique
        return str(end)
    return f"{id(end.store)}/{end.prefix}".rstrip("/")
