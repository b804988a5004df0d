"""The keys of another tool's file, and the outcome of each.

An importer reads through `SheetKeys` and marks every key as carried, changed or dropped. `Sheet.findings`
reports keys without a mark as unknown, so that the user hears of every key. The mark of a table is that of
all keys in it, except those with a mark of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from gofer.config.yaml.decode import excerpt
from gofer.config.yaml.nodes import Items, Node, Scalar, Table, ValueOrigin, is_null, table
from gofer.errors import ConfigError

MOST_KEYS = 20_000
KeyPath = tuple[str, ...]
# A row of a list of maps, in a path.
_ROW = re.compile(r"\[\d+\]$")

_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
# Between the places of a key that goes to several.
_AND = ", "


def leaves(node: Node) -> Iterator[tuple[KeyPath, Node]]:
    """Every key that holds no further keys, with where it stands.

    ConfigError when there are more than any person writes: aliases can make billions out of a few lines.
    """
    for count, found in enumerate(_walk(node, ()), 1):
        if count > MOST_KEYS:
            raise ConfigError(
                f"the file has more than {MOST_KEYS:,} keys once its aliases are followed",
                where=node.place.where,
            )
        yield found


def _walk(node: Node, path: KeyPath) -> Iterator[tuple[KeyPath, Node]]:
    if isinstance(node, Table) and node.entries:
        for name, inner in node.entries.items():
            yield from _walk(inner, (*path, name))
    elif isinstance(node, Items) and any(isinstance(item, Table) for item in node.items):
        for at, inner in enumerate(node.items):
            yield from _walk(inner, (*path[:-1], f"{path[-1]}[{at}]"))
    elif path:
        yield path, node


def dotted(path: KeyPath) -> str:
    """The key as a person would name it: `config_param.data_folder.path`."""
    return ".".join(part if part.isprintable() else ascii(part)[1:-1] for part in path)


def deepest(path: KeyPath, document: Table) -> tuple[Node, int]:
    """The nearest to the key, at or above it, that the document has, and how far down it is."""
    found: Node = document
    for depth, name in enumerate(path):
        entries = table(found)
        inner = entries.get(name) or entries.get(_ROW.sub("", name))
        if inner is None:
            return found, depth
        found = inner
    return found, len(path)


class KeyOutcome(StrEnum):
    """What became of a key."""

    CARRIED = "carried"
    CHANGED = "changed"
    DROPPED = "dropped"
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    """One key of one file. `to` is the key of gofer's that it became, or keys with a comma between them;
    empty where there is none.
    """

    place: ValueOrigin
    key: str
    outcome: KeyOutcome
    to: str = ""
    why: str = ""


class _Mark(NamedTuple):
    outcome: KeyOutcome
    to: str
    why: str


class Sheet:
    """One file with the marks of its keys. `under` are the files it builds on, nearest first.

    `has_references` says that `${env:…}` means in it what it means in gofer.yaml.
    """

    def __init__(
        self, document: Table, under: tuple[Table, ...] = (), *, has_references: bool = False
    ) -> None:
        self.document = document
        self.has_references = has_references
        self._under = under
        self._marks: dict[KeyPath, _Mark] = {}
        self._more: list[Finding] = []

    def mark(self, path: KeyPath, outcome: KeyOutcome, to: str = "", why: str = "") -> None:
        """Set the outcome of a key; a later call replaces it."""
        self._marks[path] = _Mark(outcome, to, why)

    def share(self, path: KeyPath, outcome: KeyOutcome, to: str, why: str = "") -> None:
        """As `mark`, for a key that goes to several places: this one beside those named before."""
        known = self._marks.get(path)
        places = known.to.split(_AND) if known and known.to else []
        self.mark(path, outcome, _AND.join(dict.fromkeys([*places, to])), why)

    def add(self, finding: Finding) -> None:
        """A finding about a key that is not in `document`."""
        self._more.append(finding)

    def retarget(self, old: str, new: str) -> None:
        """Another name for the target that keys went to."""
        for path, mark in self._marks.items():
            places = [new + one[len(old) :] if is_below(one, old) else one for one in mark.to.split(_AND)]
            self._marks[path] = mark._replace(to=_AND.join(places))

    def findings(self) -> list[Finding]:
        """Every key of the file and of what it builds on, in the order of the lines of each."""
        found = [self._finding(path, node) for path, node in leaves(self.document)]
        winners = {path: node.place for path, node in leaves(self.document)}
        for lower in self._under:
            for path, node in leaves(lower):
                if winners.get(path) != node.place:
                    found.append(_overruled(path, node, self.document))
        return sorted([*found, *self._more], key=lambda one: (one.place.path or "", one.place.line or 0))

    def _finding(self, path: KeyPath, node: Node) -> Finding:
        for length in range(len(path), 0, -1):
            mark = self._marks.get(path[:length])
            if mark:
                return Finding(node.place, dotted(path), *mark)
        if is_null(node):
            return Finding(node.place, dotted(path), KeyOutcome.DROPPED, why="it says nothing")
        if _is_empty(node):
            return Finding(node.place, dotted(path), KeyOutcome.DROPPED, why="it is empty")
        return Finding(
            node.place, dotted(path), KeyOutcome.UNKNOWN, why="gofer does not know this key of the tool"
        )


def _is_empty(node: Node) -> bool:
    if isinstance(node, Scalar):
        return not node.text.strip()
    return not (node.entries if isinstance(node, Table) else node.items)


def without(found: Finding, prefix: str, why: str) -> Finding:
    """The finding less the places at or below `prefix`; dropped, for that reason, when none is left."""
    if not found.to:
        return found
    left = [one for one in found.to.split(_AND) if not is_below(one, prefix)]
    if left:
        return found._replace(to=_AND.join(left))
    return found._replace(outcome=KeyOutcome.DROPPED, to="", why=why)


def is_below(key: str, prefix: str) -> bool:
    """Whether the key is `prefix` or one in it."""
    return key == prefix or key.startswith(f"{prefix}.")


def _overruled(path: KeyPath, node: Node, document: Table) -> Finding:
    """The finding for a key that another value, or a value above it, replaces in the document."""
    nearer, depth = deepest(path, document)
    why = f"`{nearer.place.where}` says otherwise"
    if depth < len(path):
        why = f"`{nearer.place.where}` stands for all of `{dotted(path[:depth])}`"
    return Finding(node.place, dotted(path), KeyOutcome.DROPPED, why=why)


class SheetKeys:
    """A table of a sheet. Reading a key does not mark it. A key set to nothing counts as absent."""

    def __init__(self, sheet: Sheet, table: Table | None = None, path: KeyPath = ()) -> None:
        self.sheet = sheet
        self.path = path
        self._table = sheet.document if table is None else table

    @property
    def place(self) -> ValueOrigin:
        return self._table.place

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.entries)

    def __contains__(self, key: str) -> bool:
        return not is_null(self._table.entries.get(key, Scalar("", self.place)))

    def where(self, key: str) -> str:
        """`FILE:LINE` of the key."""
        return self._table.entries[key].place.where

    def is_table(self, key: str) -> bool:
        return isinstance(self._table.entries.get(key), Table)

    def is_text(self, key: str) -> bool:
        """Whether the key holds a single value."""
        return key in self and isinstance(self._table.entries[key], Scalar)

    def text(self, key: str) -> str | None:
        """A single value as written; ConfigError for a list or a map."""
        node = self._table.entries.get(key)
        if node is None or is_null(node):
            return None
        if not isinstance(node, Scalar):
            raise self._wrong(key, node, "a single value")
        return node.text

    def number(self, key: str) -> int | None:
        """A whole number; ConfigError for anything else."""
        text = self.text(key)
        if text is None:
            return None
        if not text.strip().isascii() or not text.strip().isdigit() or len(text) > 18:
            raise self._wrong(key, self._table.entries[key], "a whole number")
        return int(text)

    def boolean(self, key: str) -> bool | None:
        """True or false, in any of YAML's words; ConfigError for anything else."""
        text = self.text(key)
        if text is None:
            return None
        if text.lower() not in _TRUTHS:
            raise self._wrong(key, self._table.entries[key], "true or false")
        return _TRUTHS[text.lower()]

    def texts(self, key: str) -> list[str]:
        """The values of a list; a single value is a list of one, an absent key one of none."""
        node = self._table.entries.get(key)
        if node is None or is_null(node):
            return []
        nodes = node.items if isinstance(node, Items) else (node,)
        found = [item.text for item in nodes if isinstance(item, Scalar)]
        if len(found) != len(nodes):
            raise self._wrong(key, node, "a list of texts")
        return found

    def records(self) -> dict[str, SheetKeys]:
        """The tables in this one by name; what is no table is left out."""
        return {key: self.inner(key) for key in self if self.is_table(key)}

    def inner(self, key: str) -> SheetKeys:
        """The table under the key; an empty one when there is none, ConfigError for anything else."""
        node = self._table.entries.get(key)
        if node is not None and not is_null(node) and not isinstance(node, Table):
            raise self._wrong(key, node, "a map")
        return SheetKeys(
            self.sheet, node if isinstance(node, Table) else Table({}, self.place), (*self.path, key)
        )

    def without(self, key: str) -> SheetKeys:
        """An empty table where the key holds a single value: for values that may be either."""
        return SheetKeys(self.sheet, Table({}, self._table.entries[key].place), (*self.path, key))

    def rows(self, key: str) -> list[SheetKeys]:
        """The tables of a list of tables; ConfigError for anything else."""
        node = self._table.entries.get(key)
        if node is None or is_null(node):
            return []
        items = node.items if isinstance(node, Items) else ()
        tables = [item for item in items if isinstance(item, Table)]
        if not isinstance(node, Items) or len(tables) != len(items):
            raise self._wrong(key, node, "a list of maps")
        return [SheetKeys(self.sheet, one, (*self.path, f"{key}[{at}]")) for at, one in enumerate(tables)]

    # -- what becomes of a key

    def carried(self, key: str, to: str) -> None:
        self.sheet.mark((*self.path, key), KeyOutcome.CARRIED, to)

    def changed(self, key: str, to: str, why: str) -> None:
        self.sheet.mark((*self.path, key), KeyOutcome.CHANGED, to, why)

    def shared(self, key: str, to: str, why: str = "") -> None:
        """Carried, or with `why` changed, to this place beside those that were named before."""
        outcome = KeyOutcome.CHANGED if why else KeyOutcome.CARRIED
        self.sheet.share((*self.path, key), outcome, to, why)

    def dropped(self, key: str, why: str) -> None:
        self.sheet.mark((*self.path, key), KeyOutcome.DROPPED, "", why)

    def _wrong(self, key: str, node: Node, wanted: str) -> ConfigError:
        if isinstance(node, Scalar):
            found = excerpt(node.text)
        else:
            found = "a list" if isinstance(node, Items) else "a map"
        return ConfigError(
            f"`{dotted((*self.path, key))}` must be {wanted}, not {found}", where=node.place.where
        )
