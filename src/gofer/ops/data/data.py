"""The data commands that move: what goes where, as steps.

Nothing here moves anything by itself: `gofer.ops.data.steps` looks, and goes when told to.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.errors import UsageError
from gofer.ops.data.globs import expand, has_glob
from gofer.ops.data.list import view
from gofer.ops.data.packs_copy import PacksCopy, packed_roots
from gofer.ops.data.places import StorePath, resolve, resolve_end
from gofer.ops.data.steps import Packing, Step, Transfer
from gofer.text import did_you_mean, quote_word
from gofer.transfer import LocalEnd, StoreEnd
from gofer.transfer.packs.index import FOLDER
from gofer.transfer.packs.view import find_packed, join, open_packed

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.transfer import TransferOptions


def upload(
    session: Session,
    words: Sequence[str],
    target: str | None,
    options: TransferOptions,
    *,
    pack: bool = False,
) -> list[Step]:
    """Send files and folders to where their mapped folders lie. With `pack` folders become packs; what lies
    in a packed folder is packed anyway. UsageError when a file is not there or in no mapped folder.
    """
    places = [one for word in words for one in _local_places(session, word, target)]
    return [_send(_there(place), place, options, pack=pack) for place in places]


def download(
    session: Session, words: Sequence[str], target: str | None, options: TransferOptions
) -> list[Step]:
    """Bring files and folders to the mapped folders of this machine. KeyNotFound when one is not there."""
    places = [one for word in words for one in expand(resolve(session, word, target))]
    for place in places:
        if place.local is None:
            name = quote_word(place.key.rpartition("/")[2])
            raise UsageError(
                f"`{place}` is in no mapped folder, so there is no place for it here",
                hint=f"`gofer cp {quote_word(str(place))} ./{name}`",
            )
    return [_bring(place, _there(place), options) for place in places]


def between(
    session: Session, words: Sequence[str], source: str, target: str | None, options: TransferOptions
) -> list[Step]:
    """Copy files and folders from where the folders of one target lie to where those of another do."""
    steps: list[Step] = []
    for word in words:
        for origin in expand(resolve(session, word, source)):
            goal = resolve(session, word, target)
            steps += _across(origin, goal.at(join(goal.top, origin.inside)), options)
    return steps


def copy(
    session: Session, source: str, destination: str, target: str | None, options: TransferOptions
) -> list[Step]:
    """Copy a file or a folder to a place; into it when it ends with a slash, is the whole of a mapped folder
    or store, or is a folder here and the source a file. UsageError when both are local.
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
        return [_bring(origin, goal / name if into else goal, options)]
    into = into or goal.is_whole
    return _across(origin, goal.at(join(goal.key, name)) if into else goal, options)


def sync(
    session: Session, source: str, destination: str, target: str | None, options: TransferOptions
) -> list[Step]:
    """Make one folder like the other. With `options.delete` what only the destination has is removed, never
    outside it and only after everything was copied. UsageError when both are local, or the source is a file.
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
        return [_bring(origin, goal, options)]
    return _across(origin, goal, options)


def _two_ends(
    session: Session, source: str, destination: str, target: str | None
) -> tuple[StorePath | Path, StorePath | Path]:
    origin = resolve_end(session, source, target)
    goal = resolve_end(session, destination, target)
    if isinstance(origin, Path) and isinstance(goal, Path):
        raise UsageError(
            f"neither `{source}` nor `{destination}` is in a store",
            hint="one of them is a path in a mapped folder, `STORE:path` or a URL",
        )
    if isinstance(origin, Path) and not os.path.lexists(origin):
        raise _not_here(source, origin)
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


def _bring(origin: StorePath, goal: Path, options: TransferOptions) -> Step:
    source = StoreEnd(view(origin, ahead=True), origin.key)
    return Transfer(source, LocalEnd(goal), options, str(origin), origin)


def _across(origin: StorePath, goal: StorePath, options: TransferOptions) -> list[Step]:
    """From store to store. Packs go as they are where they can, so that the services copy by themselves."""
    source, destination = StoreEnd(origin.store, origin.key), StoreEnd(goal.store, goal.key)
    plain = _apart(options)
    held = find_packed(goal.store, goal.key, goal.top)
    if held and options.delete:
        raise UsageError(
            f"`--delete` takes nothing out of the packed folder `{goal.name(held.root)}`",
            hint="leave out `--delete`, and remove by `gofer rm` what is too much",
        )
    if view(origin).around(origin.key):
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
    """Files out of packs, each by itself."""
    same = origin.store.url == goal.store.url
    destination = StoreEnd(view(goal) if same else goal.store, goal.key)
    return Transfer(StoreEnd(view(origin, ahead=True), origin.key), destination, options, str(goal), origin)


def _has_loose(origin: StorePath) -> bool:
    from gofer.transfer.packs.view import is_inside

    return any(not is_inside(info.key) for info in origin.store.list(origin.key))


def _apart(options: TransferOptions) -> TransferOptions:
    """Packs are nobody's files."""
    return options._replace(exclude=(*options.exclude, f"{FOLDER}/"))


def _there(place: StorePath) -> Path:
    assert place.local is not None, "taken from a mapped folder"
    return place.local


def _local_places(session: Session, word: str, target: str | None) -> list[StorePath]:
    place = resolve(session, word, target)
    if place.local is None:
        raise UsageError(
            f"`{word}` is in no mapped folder, so there is nothing here to send to it",
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
    return UsageError(f"`{word}` is not there: no file or folder {path}", hint=near)
