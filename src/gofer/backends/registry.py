"""The kinds of backend there are: built in, and added by other packages under the entry point
`gofer.backends`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gofer.backends.base import Backend
from gofer.errors import UnknownName
from gofer.text import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints


class Surroundings(NamedTuple):
    """What a backend is given besides its options: the folder of this machine's queue and the target's
    store.
    """

    target: str
    engine: str
    store_url: str
    store_path: str | None


class Kind(NamedTuple):
    """One kind of backend: the type of its options in gofer.yaml, and how to make one."""

    options: type[msgspec.Struct]
    make: Callable[[msgspec.Struct, Surroundings], Backend]


def _local() -> Kind:
    from gofer.backends.local.make import KIND

    return KIND


_BUILT_IN: dict[str, Callable[[], Kind]] = {"local": _local}


class Kinds(Mapping[str, type[msgspec.Struct]]):
    """The option types of every kind, for the checking of files and for their schema.

    Other packages are looked for only when a word is not a built-in one, or all are wanted.
    """

    def __getitem__(self, name: str) -> type[msgspec.Struct]:
        return find(name).options

    def __contains__(self, name: object) -> bool:
        return name in _BUILT_IN or name in _names()

    def __iter__(self) -> Iterator[str]:
        return iter(_names())

    def __len__(self) -> int:
        return len(_names())


def find(name: str) -> Kind:
    """The kind of that name; UnknownName with the nearest when there is none."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    for point in _entry_points():
        if point.name == name:
            kind = point.load()
            return Kind(kind.options, kind.make)
    raise UnknownName(f"no kind of target is called `{name}`", hint=did_you_mean(name, _names()))


def _names() -> list[str]:
    return [*_BUILT_IN, *(point.name for point in _entry_points())]


def _entry_points() -> EntryPoints:
    from importlib.metadata import entry_points

    return entry_points(group="gofer.backends")
