"""Settings as written, before they have a type: text, lists and tables, each with its file and line.

Files, environment variables and built-in values all become these nodes, so one decoder
with one set of messages is enough.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class ValueOrigin(NamedTuple):
    """Where a value was written. `origin` is for listings, `where` for errors."""

    source: str
    line: int | None = None
    path: str | None = None

    @property
    def origin(self) -> str:
        """`gofer.yaml:12`, `env GOFER_GPUS` or `built-in`."""
        return self.source if self.line is None else f"{self.source}:{self.line}"

    @property
    def where(self) -> str:
        """As `origin`, with the file's path instead of its name."""
        return self.origin if self.line is None else f"{self.path or self.source}:{self.line}"


class Scalar(NamedTuple):
    """One value exactly as written: `no`, `0.10` and `01:30` are those characters and nothing else."""

    text: str
    place: ValueOrigin
    plain: bool = True

    @property
    def is_null(self) -> bool:
        """Nothing, `~` or `null`, unquoted."""
        return self.plain and self.text in NULLS


class Items(NamedTuple):
    """A list."""

    items: tuple[Node, ...]
    place: ValueOrigin


class Table(NamedTuple):
    """A map; an entry's place is the line of its key."""

    entries: dict[str, Node]
    place: ValueOrigin


Node: TypeAlias = Scalar | Items | Table

BUILT_IN = ValueOrigin("built-in")


def is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.is_null


def table(node: Node | None) -> dict[str, Node]:
    """The entries of a table; none for anything else."""
    return node.entries if isinstance(node, Table) else {}


def merged(lower: Node | None, upper: Node | None) -> Node | None:
    """`upper` merged over `lower`: maps are merged by name at every depth, anything else is replaced."""
    if not isinstance(lower, Table) or not isinstance(upper, Table):
        return lower if upper is None else upper
    entries = dict(lower.entries)
    for name, node in upper.entries.items():
        entries[name] = merged(entries.get(name), node) or node
    return Table(entries, upper.place)
