"""The sweeps of the VS Code toolkit: `lr: 0.1, 0.01` and `(a, b): (1, 2), (3, 4)` as columns of an array."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from gofer.config.decode import excerpt
from gofer.errors import UsageError
from gofer.model.bounds import MOST_ROWS

_TOKEN = re.compile(
    r"""[^\S\n]*(?:(?P<quoted>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")|(?P<mark>[(),:\n])|(?P<word>[^\s,:()]+))"""
)
_MOST_GROUPS = 2 * MOST_ROWS  # with the marks between them
_HINT = "a line of a sweep is `name: value, value`, or `(a, b): (1, 2), (3, 4)`"
_RANGE = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


# Words that belong together, or a mark.
_Group: TypeAlias = tuple[str, ...] | str


class Sweep(NamedTuple):
    """Columns that vary alone, and the rows of those that vary together."""

    each: dict[str, list[str]]
    rows: list[dict[str, str]]


class _Token(NamedTuple):
    text: str
    is_mark: bool = False
    is_quoted: bool = False


class _Axis(NamedTuple):
    """Arguments that vary together, mostly one, and their values."""

    names: tuple[str, ...]
    values: list[tuple[str, ...]]


def read_sweep(lines: Sequence[str]) -> Sweep:
    """The lines are one text, in which a line break is a comma, and a name with a colon begins an argument.

    UsageError for a text that names no argument, or gives one no value or too many.
    """
    axes = _axes("\n".join(line for text in lines for line in text.splitlines()))
    _check(axes)
    each = {one.names[0]: [value for (value,) in one.values] for one in axes if len(one.names) == 1}
    tuples = [
        [dict(zip(one.names, values, strict=True)) for values in one.values]
        for one in axes
        if len(one.names) > 1
    ]
    if math.prod(len(one) for one in tuples) > MOST_ROWS:
        raise UsageError(f"the sweep has more than {MOST_ROWS:,} rows")
    rows = [dict(itertools.chain(*(part.items() for part in row))) for row in itertools.product(*tuples)]
    return Sweep(each, rows if tuples else [])


def _check(axes: Sequence[_Axis]) -> None:
    seen: set[str] = set()
    for names, values in axes:
        shown = excerpt(", ".join(names))
        if not names or not values or any(len(one) != len(names) for one in values):
            raise UsageError(f"the sweep does not give each of {shown} a value")
        if len({*names} - seen) != len(names):
            raise UsageError(f"the sweep gives values to {shown} twice")
        seen |= {*names}


def _axes(text: str) -> list[_Axis]:
    groups = [*itertools.islice(_groups(text), _MOST_GROUPS + 1)]
    if len(groups) > _MOST_GROUPS:
        raise UsageError(f"the sweep has more than {MOST_ROWS:,} values")
    axes: list[_Axis] = []
    before: _Group = ","
    for group, behind in itertools.pairwise([*groups, ","]):
        if group == ":" and isinstance(before, str):
            raise UsageError("a `:` of the sweep has no name before it", hint=_HINT)
        if not isinstance(group, str):
            if behind == ":":
                axes.append(_Axis(group, []))
            elif not axes:
                raise UsageError(f"no argument is named before {excerpt(', '.join(group))}", hint=_HINT)
            else:
                axes[-1].values.append(group)
        before = group
    return axes


def _groups(text: str) -> Iterator[_Group]:
    """Words that belong together, which is one word unless they stand in brackets, and marks between them."""
    together: list[str] | None = None
    for token in _tokens(text):
        mark = token.text if token.is_mark else ""
        if together is None and mark == "(":
            together = []
        elif together is None and mark != ")":
            yield from [mark] if mark else [(one,) for one in _numbers(token)]
        elif together is not None and mark == ")":
            yield tuple(together)
            together = None
        elif together is not None and not mark:
            together.append(token.text)
        elif mark not in (",", "\n"):
            raise UsageError(f"a `{mark}` of the sweep has no place where it stands", hint=_HINT)
    if together is not None:
        raise UsageError("a bracket of the sweep does not close", hint=_HINT)


def _numbers(token: _Token) -> list[str]:
    """The whole numbers of a range such as `2-4`; any other word is itself."""
    match = None if token.is_quoted else _RANGE.fullmatch(token.text)
    if match is None:
        return [token.text]
    first, last = int(match[1]), int(match[2])
    if not 0 <= last - first < MOST_ROWS:
        many = "too many values" if last > first else "no value"
        raise UsageError(f"the range `{token.text}` of the sweep has {many}")
    return [str(number) for number in range(first, last + 1)]


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text.strip()):
        if match["quoted"]:
            yield _Token(match["quoted"][1:-1], is_quoted=True)
        else:
            yield _Token(match["mark"] or match["word"], is_mark=bool(match["mark"]))
