"""XT's files in layers, factory below person below project: how XT itself makes one file out of them.

Builds with such layers, also that of the page on Singularity, join section by section. In a section a name of
the nearer file stands for all that the one below says under it: a target or a record of an image is replaced
whole, and so is a list or `env-vars`. The first public release, of 2020, had one file over its own defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from gofer.config.nodes import Node, Table, is_null


def join_layers(tables: Sequence[Table]) -> Table:
    """One table out of several, the nearest first; its place is that of the nearest."""
    return reduce(_over, reversed(tables))


def _over(lower: Table, upper: Table) -> Table:
    sections = dict(lower.entries)
    for name, section in upper.entries.items():
        sections[name] = _joined(sections.get(name), section)
    return Table(sections, upper.place)


def _joined(lower: Node | None, upper: Node) -> Node:
    """One section; an empty one says nothing, and leaves what is below it."""
    if lower is not None and is_null(upper):
        return lower
    if not isinstance(lower, Table) or not isinstance(upper, Table):
        return upper
    return Table({**lower.entries, **upper.entries}, upper.place)
