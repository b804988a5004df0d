"""The columns of an array of calls: the number of the call, and the arguments that are short texts or
numbers. Pure.

`gofer list runs --rows` shows them, and filters find rows by them. The node finds its arguments by the
number.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence

from gofer.core.command import rows
from gofer.model.job import Array
from gofer.node.functions.names import ROW

_NAME = re.compile(rows.NAME)
_MOST_CHARACTERS = 80


def array_of(function: Callable[..., object], calls: Sequence[tuple[object, ...]]) -> Array:
    """An array with a row for each call."""
    columns = {ROW: tuple(map(str, range(len(calls))))}
    for name, values in zip(_parameters(function), zip(*calls, strict=True), strict=False):
        texts = tuple(map(_text, values))
        if name.lower() != ROW and all(text is not None for text in texts):
            columns[name] = tuple(text or "" for text in texts)
    return Array(tuple(columns), tuple(zip(*columns.values(), strict=True)))


def _parameters(function: Callable[..., object]) -> list[str]:
    """The names of the parameters that take positional arguments, in order."""
    try:
        found = inspect.signature(function).parameters.values()
    except ValueError:
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in found if one.kind in kinds and _NAME.fullmatch(one.name)]


def _text(value: object) -> str | None:
    """The text of a simple value; None for a value that a table cannot show."""
    if not isinstance(value, str | int | float) or (isinstance(value, str) and not value.isprintable()):
        return None
    text = str(value)
    return text if len(text) <= _MOST_CHARACTERS else None
