"""Describe the facts of a cluster as text: any plain JSON value of `Backend.describe`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gofer.text import format_size

_SIZE = "_mib"


def fact(name: str, value: object) -> tuple[str, str]:
    """A label and its text, empty when there is nothing to say: `memory_mib`, 24576 becomes `memory`, `24.0
    GiB`.
    """
    if name.endswith(_SIZE) and isinstance(value, int):
        return name.removesuffix(_SIZE).replace("_", " "), format_size(value << 20)
    return name.replace("_", " "), words(value)


def words(value: object) -> str:
    """A value as text: `3 of 8 free`, `2 running, 1 queued`, or a table with one line per row."""
    if isinstance(value, list | tuple):
        return _aligned(value) if _is_table(value) else "\n".join(words(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, Mapping):
        return "" if value is None else str(value)
    told = {str(key): one for key, one in value.items() if one is not None}
    if told.keys() == {"free", "total"}:
        return f"{told['free']} of {told['total']} free" if told["total"] else "none"
    if told and all(isinstance(one, Mapping) for one in told.values()):
        return "\n".join(f"{key}: {words(one)}" for key, one in told.items())
    if "utilisation" in told and "index" in told:
        return _gpu(told)
    if told and all(type(one) is int for one in told.values()):
        return ", ".join(f"{one} {key.replace('_', ' ')}" for key, one in told.items())
    return " ".join(f"{key}={one}" for key, one in told.items())


def _is_table(rows: Sequence[object]) -> bool:
    """Whether the rows are mappings with the same keys, and text or numbers as values."""
    maps = [row for row in rows if isinstance(row, Mapping)]
    same = len(maps) == len(rows) > 1 and len({tuple(row) for row in maps}) == 1
    plain = all(isinstance(one, str | int | None) for row in maps for one in row.values())
    return same and plain and "utilisation" not in maps[0]


def _aligned(rows: Sequence[Any]) -> str:
    """A table with a heading. Columns are as wide as their widest cell, and numbers are right-aligned."""
    names = list(rows[0])
    cells = [[name.replace("_", " ").upper() for name in names]]
    cells += [["" if row[name] is None else str(row[name]) for name in names] for row in rows]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    right = [all(isinstance(row[name], int) for row in rows) for name in names]
    lines = (
        "  ".join(
            cell.rjust(wide) if is_right else cell.ljust(wide)
            for cell, wide, is_right in zip(line, widths, right, strict=True)
        )
        for line in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def _gpu(told: Mapping[str, Any]) -> str:
    memory = [told[key] for key in ("memory_used_mib", "memory_total_mib") if key in told]
    used = ", " + " of ".join(format_size(int(one) << 20) for one in memory) if memory else ""
    return f"GPU {told['index']} {told.get('name', '')}".rstrip() + f": {told['utilisation']} % busy{used}"
