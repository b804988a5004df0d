"""Expand `*`, `?` and `[…]` in paths of a store, for patterns that are quoted in the shell."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gofer.ops.data.list import missing, view
from gofer.transfer.packs.view import join

if TYPE_CHECKING:
    from gofer.ops.data.places import StorePath

_GLOB = re.compile(r"[*?\[]")


def has_glob(text: str) -> bool:
    return _GLOB.search(text) is not None


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
