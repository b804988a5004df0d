"""The data commands that change data: copies, as a list of steps, and removals, which are counted first.

The functions that copy return steps: `gofer.ops.data.steps` compares and copies. Files are also removed from
packed folders.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.errors import UsageError
from gofer.ops.data.contents import expand, has_glob, missing, view
from gofer.ops.data.places import StorePath, check_changeable, resolve, resolve_end
from gofer.ops.data.steps import Packing, PacksCopy, Step, Transfer, packed_roots
from gofer.text import did_you_mean, quote_word
from gofer.transfer import LocalEnd, StoreEnd
from gofer.transfer.packs.index import FOLDER
from gofer.transfer.packs.view import find_packed, is_inside, join, open_packed

if TYPE_CHECKING:
    from gofer.ops.data.places import StorePath
    from gofer.ops.session import Session
    from gofer.transfer import TransferOptions
    from gofer.transfer.packs.store import PackView


def upload(
    session: Session,
    words: Sequence[str],
    target: str | None,
    options: TransferOptions,
    *,
    pack: bool = False,
) -> list[Step]:
    """Upload files and folders to the stores of their mapped folders. With `pack`, folders are stored as
    packs; files of a packed folder always are. UsageError when a file does not exist or is in no mapped
    folder.
    """
    places = [one for word in words for one in _local_places(session, word, target)]
    return [_send(_local_path(place), place, options, pack=pack) for place in places]


def download(
    session: Session, words: Sequence[str], target: str | None, options: TransferOptions
) -> list[Step]:
    """Download files and folders into the mapped folders of this machine. KeyNotFound when one does not
    exist.
    """
    places = [one for word in words for one in expand(resolve(session, word, target))]
    for place in places:
        if place.local is None:
            name = quote_word(place.key.rpartition("/")[2])
            raise UsageError(
                f"`{place}` is in no mapped folder, so gofer does not know where to put it",
                hint=f"`gofer cp {quote_word(str(place))} ./{name}`",
            )
    return [bring(place, _local_path(place), options) for place in places]


def between(
    session: Session, words: Sequence[str], source: str, target: str | None, options: TransferOptions
) -> list[Step]:
    """Copy files and folders from the stores of one target's mapped folders to those of another target."""
    steps: list[Step] = []
    for word in words:
        for origin in expand(resolve(session, word, source)):
            goal = resolve(session, word, target)
            steps += _across(origin, goal.at(join(goal.top, origin.inside)), options)
    return steps


def copy(
    session: Session, source: str, destination: str, target: str | None, options: TransferOptions
) -> list[Step]:
    """Copy a file or a folder. It is copied into the destination when that ends with a slash, is a whole
    mapped folder or store, or is a local folder and the source is a file. UsageError when both are local.
    """
    origin, goal = _two_ends(session, source, destination, target)
    into = destination.endswith("/") or destination in (".", "..")
    if isinstance(origin, Path):
        assert isinstance(goal, StorePath), "one of the two is"
        into = into or goal.is_whole
        return [_send(origin, goal.at(join(goal.key, origin.name)) if into else goal, options)]
    name = origin.key.rpartition("/")[2]
    if isinstance(goal, Path):
        into = into or (goal.is_dir() and view(origin).head(origin.key) is not None)
        return [bring(origin, goal / name if into else goal, options)]
    into = into or goal.is_whole
    return _across(origin, goal.at(join(goal.key, name)) if into else goal, options)


def sync(
    session: Session, source: str, destination: str, target: str | None, options: TransferOptions
) -> list[Step]:
    """Copy a folder so that the destination equals the source. With `options.delete`, files that only the
    destination has are removed, after everything was copied. UsageError when both are local, or the source is
    a file.
    """
    origin, goal = _two_ends(session, source, destination, target)
    if isinstance(origin, Path):
        if not origin.is_dir():
            raise UsageError(
                f"`{source}` is a file, and `sync` takes folders", hint="`gofer cp` copies files"
            )
        assert isinstance(goal, StorePath), "one of the two is"
        return [_send(origin, goal, options)]
    if isinstance(goal, Path):
        return [bring(origin, goal, options)]
    return _across(origin, goal, options)


def _two_ends(
    session: Session, source: str, destination: str, target: str | None
) -> tuple[StorePath | Path, StorePath | Path]:
    origin = resolve_end(session, source, target)
    goal = resolve_end(session, destination, target)
    if isinstance(origin, Path) and isinstance(goal, Path):
        raise UsageError(
            f"neither `{source}` nor `{destination}` is in a store",
            hint="one of them must be a path in a mapped folder, `STORE:path` or a URL",
        )
    if isinstance(origin, Path) and not os.path.lexists(origin):
        raise _not_here(source, origin)
    if isinstance(goal, StorePath):
        check_changeable(goal)
    return origin, goal


def _send(origin: Path, goal: StorePath, options: TransferOptions, *, pack: bool = False) -> Step:
    if pack and not origin.is_dir():
        raise UsageError(
            f"`{goal}` is a single file, and packs are made of folders", hint="leave out `--pack`"
        )
    held = find_packed(goal.store, goal.key, goal.top)
    if held or pack:
        root = held.root if held else goal.key
        inside = goal.key[len(root) :].lstrip("/")
        return Packing(origin, goal.store, root, inside, options, str(goal))
    return Transfer(LocalEnd(origin), StoreEnd(goal.store, goal.key), _apart(options), str(goal))


def bring(origin: StorePath, goal: Path, options: TransferOptions) -> Step:
    """Copy a file or folder of a store to this machine."""
    source = StoreEnd(view(origin, ahead=True), origin.key)
    return Transfer(source, LocalEnd(goal), options, str(origin), origin)


def _across(origin: StorePath, goal: StorePath, options: TransferOptions) -> list[Step]:
    """Copy between stores. Packs are copied as they are if possible, so that the service itself can copy."""
    source, destination = StoreEnd(origin.store, origin.key), StoreEnd(goal.store, goal.key)
    plain = _apart(options)
    held = find_packed(goal.store, goal.key, goal.top)
    if held and options.delete:
        raise UsageError(
            f"`--delete` does not remove files from the packed folder `{goal.name(held.root)}`",
            hint="leave out `--delete`, and remove files with `gofer rm`",
        )
    if view(origin).enclosing(origin.key):
        return [_opened(origin, goal, plain)]
    roots = packed_roots(origin.store, origin.key)
    goals = [join(goal.key, root[len(origin.key) :].lstrip("/")) for root in roots]
    if roots and any(held or open_packed(goal.store, one) for one in goals):
        return [_opened(origin, goal, plain)]
    packs = [
        PacksCopy(origin.store, root, goal.store, there, options, goal.name(there))
        for root, there in zip(roots, goals, strict=True)
    ]
    if origin.key in roots and len(roots) == 1 and not _has_loose(origin):
        return [*packs]
    return [*packs, Transfer(source, destination, plain, str(goal), origin)]


def _opened(origin: StorePath, goal: StorePath, options: TransferOptions) -> Step:
    """Copy the files of packs one by one."""
    same = origin.store.url == goal.store.url
    destination = StoreEnd(view(goal) if same else goal.store, goal.key)
    return Transfer(StoreEnd(view(origin, ahead=True), origin.key), destination, options, str(goal), origin)


def _has_loose(origin: StorePath) -> bool:
    return any(not is_inside(info.key) for info in origin.store.list(origin.key))


def _apart(options: TransferOptions) -> TransferOptions:
    """The options, with gofer's own pack folders excluded."""
    return options._replace(exclude=(*options.exclude, f"{FOLDER}/"))


def _local_path(place: StorePath) -> Path:
    assert place.local is not None, "taken from a mapped folder"
    return place.local


def _local_places(session: Session, word: str, target: str | None) -> list[StorePath]:
    place = resolve(session, word, target)
    check_changeable(place)
    if place.local is None:
        raise UsageError(
            f"`{word}` is in no mapped folder, so it has no local files to send",
            hint=f"`gofer cp ./PATH {quote_word(word)}`",
        )
    if os.path.lexists(place.local):
        return [place]
    matches = sorted(glob.glob(str(place.local))) if has_glob(word) else []
    if not matches:
        raise _not_here(word, place.local)
    return [resolve(session, match, target) for match in matches]


def _not_here(word: str, path: Path) -> UsageError:
    names = os.listdir(path.parent) if path.parent.is_dir() else []
    near = did_you_mean(path.name, names)
    if near:
        near = near.replace("`", f"`{word[: -len(path.name)]}", 1)
    return UsageError(f"`{word}` does not exist: there is no file or folder {path}", hint=near)


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
            hint="name what to remove, for example a folder in it",
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
