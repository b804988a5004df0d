"""Finds kinds of backend by name: the packages of `gofer.backends`, and those that other packages add."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import msgspec

from gofer.backends.base import Capabilities
from gofer.backends.kind import Kind, KindChecks
from gofer.errors import UnknownName
from gofer.text import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from gofer.config.targets import Target


class Kinds(Mapping[str, type[msgspec.Struct]]):
    """The option types of every kind, for checking files and for their schema.

    Entry points of other packages are read only for a word that is not built in, or when all kinds are
    wanted: reading them is slow.
    """

    def __getitem__(self, name: str) -> type[msgspec.Struct]:
        return find(name).options

    def __contains__(self, name: object) -> bool:
        return name in _built_in() or name in _names()

    def __iter__(self) -> Iterator[str]:
        return iter(_names())

    def __len__(self) -> int:
        return len(_names())


def find(name: str) -> Kind[Any]:
    """The kind of that name; UnknownName, with the nearest name as a hint, when there is none."""
    if name in _built_in():
        return cast(Kind[Any], import_module(f"gofer.backends.{name}.make").KIND)
    for point in _entry_points():
        if point.name == name:
            return cast(Kind[Any], point.load())
    raise UnknownName(f"no kind of target is called `{name}`", hint=did_you_mean(name, _names()))


def find_checks(word: str) -> tuple[str, KindChecks] | None:
    """The kind whose checks have this word, and the checks; None for an unknown word."""
    for name in _names():
        checks = find(name).checks
        if checks is not None and checks.word == word:
            return name, checks
    return None


def runs_here(name: str) -> bool:
    """Whether runs of the kind are processes of the machine that submits them. False for a kind that is not
    installed: the ledger may have runs of such a kind.
    """
    try:
        return find(name).runs_here
    except UnknownName:
        return False


def capabilities_of(target: Target) -> Capabilities:
    """What the options of a target say of it. Makes no backend and asks nothing."""
    return find(target.kind).capabilities(target.options)


@cache
def _built_in() -> tuple[str, ...]:
    entries = os.scandir(os.path.dirname(__file__))
    return tuple(sorted(one.name for one in entries if os.path.isfile(os.path.join(one.path, "make.py"))))


def _names() -> list[str]:
    return [*_built_in(), *(point.name for point in _entry_points())]


def _entry_points() -> EntryPoints:
    from importlib.metadata import entry_points

    return entry_points(group="gofer.backends")
