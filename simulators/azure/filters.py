"""The filter expressions of the run history: `(status eq 'Running' or status eq 'Queued') and tags/a ne 'b'`.

The part of OData's language that clients of the run history speak: comparisons of a field, or of a path into
one, with a word or a quoted text, joined by `and`, `or`, `not` and brackets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from simulators.azure.messages import Json, user_error

Test = Callable[[Json], bool]
_TOKEN = re.compile(r"\s*(\(|\)|'(?:[^']|'')*'|[^\s()']+)")
_COMPARE: dict[str, Callable[[str, str], bool]] = {
    "eq": lambda one, other: one == other,
    "ne": lambda one, other: one != other,
    "gt": lambda one, other: one > other,
    "ge": lambda one, other: one >= other,
    "lt": lambda one, other: one < other,
    "le": lambda one, other: one <= other,
}


def read_filter(text: str) -> Test:
    """What it says of a document; everything fits no filter. Refused with 400 when it is no expression."""
    if not text.strip():
        return lambda one: True
    reader = _Reader(text)
    made = reader.either()
    if reader.words:
        raise _bad(text)
    return made


class _Reader:
    """Takes the words of an expression one by one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.words = _TOKEN.findall(text)
        if "".join(self.words) != re.sub(r"\s+(?=(?:[^']*'[^']*')*[^']*$)", "", text):
            raise _bad(text)

    def either(self) -> Test:
        parts = [self._all()]
        while self._take("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else lambda one: any(part(one) for part in parts)

    def _all(self) -> Test:
        parts = [self._condition()]
        while self._take("and"):
            parts.append(self._condition())
        return parts[0] if len(parts) == 1 else lambda one: all(part(one) for part in parts)

    def _condition(self) -> Test:
        if self._take("not"):
            inner = self._condition()
            return lambda one: not inner(one)
        if self._take("("):
            inner = self.either()
            if not self._take(")"):
                raise _bad(self._text)
            return inner
        return self._operand()

    def _operand(self) -> Test:
        if len(self.words) < 3 or self.words[1].lower() not in _COMPARE:
            raise _bad(self._text)
        path, word, value = self.words[:3]
        del self.words[:3]
        if value.startswith("'"):
            value = value[1:-1].replace("''", "'")
        compare = _COMPARE[word.lower()]
        return lambda one: compare(_field(one, path), value)

    def _take(self, word: str) -> bool:
        if self.words and self.words[0].lower() == word:
            del self.words[0]
            return True
        return False


def _field(one: Json, path: str) -> str:
    """The value at a path of names, whose letters' case means nothing; Refused for a field there is not."""
    found: object = one
    for at, name in enumerate(path.split("/")):
        known = {key.lower(): value for key, value in found.items()} if isinstance(found, Mapping) else {}
        if at == 0 and name.lower() not in known:
            raise user_error(f"The filter names no field of a run: {path}")
        found = known.get(name.lower())
    return "" if found is None else str(found)


def _bad(text: str) -> Exception:
    return user_error(f"The filter cannot be read: {text}")
