"""The contents of a store: list, count, read single files, make URLs, and expand patterns. Reads only.

A packed folder appears as the files that it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from gofer.config.folders import folders_of
from gofer.errors import KeyNotFound, UsageError
from gofer.ops.data.places import data_target
from gofer.ops.messages import Hint
from gofer.storage.base import OnDisk, Signs
from gofer.text import did_you_mean
from gofer.transfer.packs.store import PackView
from gofer.transfer.packs.view import join

if TYPE_CHECKING:
    from gofer.ops.data.places import StorePath
    from gofer.ops.session import Session
    from gofer.storage.base import ObjectInfo


_MOST_NEAR = 1000
_GLOB = re.compile(r"[*?\[]")


class ListingEntry(NamedTuple):
    """One line of a listing; a folder has neither size nor time, and its path ends with a slash."""

    path: str
    key: str
    size: int | None = None
    modified: float | None = None


class Usage(NamedTuple):
    """The files and bytes in a folder, including all subfolders."""

    path: str
    files: int
    bytes: int


def list_entries(place: StorePath, *, recursive: bool = False) -> Iterator[ListingEntry]:
    """The entries that begin with the place's name: the file itself, the contents of the folder, and entries
    with longer names. For a place that ends with a slash, and for a whole folder or store, its contents only.

    One level, or all files below with `recursive`, as a stream in the order of names. KeyNotFound, with
    similar names, when there is nothing.
    """
    found = _files(place) if recursive else _levels(place)
    first = next(found, None)
    if first is not None:
        yield first
        yield from found
    elif not place.is_whole:
        raise missing(place)


def usage(place: StorePath) -> list[Usage]:
    """Each folder directly in the place, then the place itself; KeyNotFound when there is nothing."""
    sums: dict[str, list[int]] = {}
    files = size = 0
    skip = len(place.key) + 1 if place.key else 0
    for info in view(place).list(place.key):
        files, size = files + 1, size + info.size
        folder, slash, _ = info.key[skip:].partition("/")
        if slash:
            both = sums.setdefault(folder, [0, 0])
            both[0] += 1
            both[1] += info.size
    if not files and not place.is_whole:
        raise missing(place)
    inner = [Usage(f"{place.name(join(place.key, name))}/", *both) for name, both in sorted(sums.items())]
    return [*inner, Usage(str(place), files, size)]


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


def list_folders(session: Session, target: str | None) -> Iterator[ListingEntry]:
    """The mapped folders of a target, by name. Says how to map one when there is none."""
    name = data_target(session.settings, target)
    folders = folders_of(session.settings, name)
    if not folders:
        session.emit(Hint(f"no folder is mapped for `{name}`; `folders:` in gofer.yaml maps one"))
    for one in sorted(folders):
        yield ListingEntry(f"{one}/", "")


def expand(place: StorePath) -> list[StorePath]:
    """The files and folders that match the pattern, in order. The place itself when it has no pattern, or
    when a file with exactly this name exists. KeyNotFound when nothing matches.
    """
    if not has_glob(place.inside):
        return [place]
    store = view(place)
    if next(store.list(place.key), None) is not None:
        return [place]
    wanted = place.inside.split("/")
    plain = next(at for at, part in enumerate(wanted) if has_glob(part))
    base = join(place.top, "/".join(wanted[:plain]))
    pattern = wanted[plain:]
    skip = len(base) + 1 if base else 0
    found: dict[str, None] = {}
    for info in store.list(base):
        parts = info.key[skip:].split("/")[: len(pattern)]
        if len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern)):
            found[join(base, "/".join(parts))] = None
    if not found:
        raise missing(place)
    return [place.at(key) for key in found]


def has_glob(text: str) -> bool:
    return _GLOB.search(text) is not None


def view(place: StorePath, *, ahead: bool = False) -> PackView:
    """The place's store with its packs opened."""
    return PackView(place.store, place.top, ahead=ahead)


def missing(place: StorePath) -> KeyNotFound:
    """The error for a place with nothing in it. The hint names the most similar entry."""
    parent, _, name = place.key.rpartition("/")
    names = [one for one, _ in zip(_names(place, parent), range(_MOST_NEAR), strict=False)]
    near = did_you_mean(name, names)
    hint = f"`gofer ls {place.name(parent)}` shows what is there"
    if near:
        word = near.split("`")[1]
        hint = f"did you mean `{place.name(join(parent, word))}`?"
    return KeyNotFound(f"there is nothing at `{place}`", hint=hint if place.key != place.top else None)


def _names(place: StorePath, parent: str) -> Iterator[str]:
    return (
        one if isinstance(one, str) else one.key.rpartition("/")[2] for one in view(place).list_level(parent)
    )


def _files(place: StorePath) -> Iterator[ListingEntry]:
    store = view(place)
    exact = place.slash or place.is_whole
    listed = store.list(place.key) if exact else store.list_beginning(place.key)
    return (_entry(place, info) for info in listed if not (place.slash and info.key == place.key))


def _levels(place: StorePath) -> Iterator[ListingEntry]:
    """The entries of the place's folder that begin with its name. A folder with exactly this name is replaced
    by its contents.
    """
    store = view(place)
    if place.slash or place.is_whole:
        yield from _level(store, place, place.key, "")
        return
    parent, _, name = place.key.rpartition("/")
    for entry in _level(store, place, parent, name):
        if entry.size is None and entry.key == place.key:
            yield from _level(store, place, place.key, "")
        else:
            yield entry


def _level(store: PackView, place: StorePath, folder: str, beginning: str) -> Iterator[ListingEntry]:
    found: dict[str, ListingEntry] = {}
    for one in store.list_level(folder):
        name = one if isinstance(one, str) else one.key.rpartition("/")[2]
        if not name.startswith(beginning):
            continue
        if isinstance(one, str):
            key = join(folder, name)
            found[f"{name}/"] = ListingEntry(f"{place.name(key)}/", key)
        else:
            found[name] = _entry(place, one)
    for name in sorted(found):
        yield found[name]


def _entry(place: StorePath, info: ObjectInfo) -> ListingEntry:
    return ListingEntry(place.name(info.key), info.key, info.size, info.modified)


def _check_file(place: StorePath) -> None:
    store = view(place)
    if place.key and store.head(place.key) is not None:
        return
    if place.is_whole or next(store.list(place.key), None) is not None:
        raise UsageError(f"`{place}` is a folder", hint=f"`gofer ls {place}` shows the files in it")
    raise missing(place)
