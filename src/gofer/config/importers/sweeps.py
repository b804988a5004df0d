"""The sweeps of the VS Code toolkit: `lr: 0.1, 0.01` and `(a, b): (1, 2), (3, 4)` as columns of an array."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from gofer.errors import UsageError

MOST_ROWS = 100_000
_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>'[^']*'|"[^"]*")|(?P<range>\d+-\d+)(?=\s*(?:,|$))|(?P<mark>[(),:])|(?P<word>[^\s,:()]+))"""
)


class Sweep(NamedTuple):
    """Columns that vary alone, and the rows of those that vary together."""

    each: dict[str, list[str]]
    rows: list[dict[str, str]]


def read_sweep(lines: Sequence[str]) -> Sweep:
    """One argument, or one tuple of them, for each line; UsageError for a line that is neither."""
    axes = [_axis(line) for text in lines for line in _entries(text)]
    each = {names[0]: [value for (value,) in values] for names, values in axes if len(names) == 1}
    tuples = [
        [dict(zip(names, one, strict=True)) for one in values] for names, values in axes if len(names) > 1
    ]
    if math.prod(len(one) for one in tuples) > MOST_ROWS:
        raise UsageError(f"the sweep has more than {MOST_ROWS:,} rows")
    rows = [dict(itertools.chain(*(part.items() for part in row))) for row in itertools.product(*tuples)]
    return Sweep(each, rows if tuples else [])


def _entries(text: str) -> list[str]:
    """A line break stands for a comma, unless a new argument begins behind it."""
    entries: list[str] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        begins = re.match(r"\s*(?:\([^)]*\)|[^\s,:()'\"]+)\s*:", line) is not None
        if begins or not entries:
            entries.append(line.strip())
        else:
            entries[-1] = f"{entries[-1].rstrip(',: ') if entries[-1].endswith(',') else entries[-1]}"
            entries[-1] += ("" if entries[-1].endswith(":") else ",") + line.strip()
    return entries


def _axis(line: str) -> tuple[list[str], list[tuple[str, ...]]]:
    tokens = _tokens(line)
    if (":", True) not in tokens:
        raise UsageError(f"`{line}` names no argument", hint="a line of a sweep is `name: value, value`")
    at = tokens.index((":", True))
    names = [word for word, is_mark in tokens[:at] if not is_mark]
    values = _values(tokens[at + 1 :], line)
    if not names or not values or any(len(one) != len(names) for one in values):
        raise UsageError(f"`{line}` does not give each of its arguments a value")
    return names, values


def _values(tokens: list[tuple[str, bool]], line: str) -> list[tuple[str, ...]]:
    values: list[tuple[str, ...]] = []
    together: list[str] | None = None
    for word, is_mark in tokens:
        if not is_mark and together is not None:
            together.append(word)
        elif not is_mark:
            values.append((word,))
        elif word == "(" and together is None:
            together = []
        elif word == ")" and together is not None:
            values.append(tuple(together))
            together = None
        elif word != ",":
            raise UsageError(f"`{word}` has no place in `{line}`")
    if together is not None:
        raise UsageError(f"a bracket of `{line}` does not close")
    return values


def _tokens(line: str) -> list[tuple[str, bool]]:
    """Words and marks in order; a range of whole numbers is its numbers."""
    found: list[tuple[str, bool]] = []
    position = 0
    while line[position:].strip():
        match = _TOKEN.match(line, position)
        if match is None:
            raise UsageError(f"`{line}` cannot be read as a line of a sweep")
        position = match.end()
        if match["range"]:
            first, last = (int(part) for part in match["range"].split("-"))
            if last - first >= MOST_ROWS:
                raise UsageError(f"the range `{match['range']}` has too many values")
            found += [(str(number), False) for number in range(first, last + 1)]
        else:
            word = match["quoted"][1:-1] if match["quoted"] else match["mark"] or match["word"]
            found.append((word, bool(match["mark"])))
    return found
