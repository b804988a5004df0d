"""Where the keys of a document are: every one that holds no further keys, by its path from the top."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gofer.config.nodes import Items, Node, Table, table
from gofer.errors import ConfigError

MOST_KEYS = 20_000
KeyPath = tuple[str, ...]
# A row of a list of maps, in a path.
_ROW = re.compile(r"\[\d+\]$")


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
