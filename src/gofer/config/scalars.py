"""Read single values: text as a number, true or false, a word of a fixed set, or a duration, within limits.

Shared by the decoder of files and the check of flags, so that both refuse the same things in the same words.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import inspect

from gofer.config.nodes import Items, Node, Scalar, ValueOrigin, is_null
from gofer.errors import ConfigError, UsageError
from gofer.text import did_you_mean, parse_duration_s

_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?")
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NAMES: Mapping[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.StrType: "text",
    inspect.VarTupleType: "a list",
    inspect.ListType: "a list",
    inspect.DictType: "a map",
    inspect.StructType: "a map",
}
_LIMITS: Mapping[str, tuple[Callable[[Any, Any], object], str]] = {
    "ge": (operator.ge, "at least {}"),
    "gt": (operator.gt, "more than {}"),
    "le": (operator.le, "at most {}"),
    "lt": (operator.lt, "less than {}"),
    "min_length": (lambda value, limit: len(value) >= limit, "at least {} characters long"),
    "max_length": (lambda value, limit: len(value) <= limit, "at most {} characters long"),
    "pattern": (lambda value, limit: re.search(limit, value), "text that matches `{}`"),
}


def excerpt(text: str) -> str:
    """A value as it may stand in a one-line message: escaped, cut, in backticks."""
    safe = text if text.isprintable() else ascii(text)[1:-1]
    return f"`{safe[:60]}…`" if len(safe) > 60 else f"`{safe}`"


def bare(kind: inspect.Type) -> tuple[inspect.Type, Mapping[str, Any]]:
    """The type without its annotations, and what they said beyond limits."""
    if isinstance(kind, inspect.Metadata):
        return kind.type, kind.extra or {}
    return kind, {}


def choices(kind: inspect.Type) -> dict[str, Any]:
    """The words of a closed set with their values; none for other types."""
    if isinstance(kind, inspect.EnumType):
        return {str(member.value): member for member in kind.cls}
    if isinstance(kind, inspect.LiteralType):
        return {str(value): value for value in kind.values}
    return {}


def describe(kind: inspect.Type) -> str:
    """What a value of the type is called in a message: `a whole number`, `one of …`."""
    kind, extra = bare(kind)
    if "duration" in extra:
        return "a length of time"
    if isinstance(kind, inspect.UnionType):
        return " or ".join(
            dict.fromkeys(describe(one) for one in kind.types if not isinstance(one, inspect.NoneType))
        )
    words = choices(kind)
    if words:
        return f"one of {', '.join(f'`{word}`' for word in sorted(words))}"
    return _NAMES.get(type(kind), "a value")


def wrong_type(node: Node, kind: inspect.Type, key: str) -> ConfigError:
    """The error for a value of another type than was wanted."""
    if isinstance(node, Scalar):
        found = "nothing" if is_null(node) else f"{'' if node.plain else 'the text '}{excerpt(node.text)}"
        hint = did_you_mean(node.text, choices(bare(kind)[0]))
    else:
        found, hint = "a list" if isinstance(node, Items) else "a map", None
    return ConfigError(f"`{key}` must be {describe(kind)}, not {found}", where=node.place.where, hint=hint)


def truth(node: Scalar) -> bool | None:
    """What the words for true and false mean, unquoted; None for any other."""
    return _TRUTHS.get(node.text.lower()) if node.plain else None


def read_scalar(node: Scalar, annotated: inspect.Type, key: str) -> Any:
    """The text as a value of a single-valued type, within its limits; ConfigError otherwise."""
    kind, extra = bare(annotated)
    value: Any = None
    if "duration" in extra:
        value = _duration(node, key)
        kind = inspect.FloatType(gt=0.0) if extra["duration"] == "positive" else inspect.FloatType(ge=0.0)
    elif isinstance(kind, (inspect.StrType, inspect.AnyType)):
        value = node.text
    elif node.plain and isinstance(kind, inspect.BoolType):
        value = truth(node)
    elif node.plain and isinstance(kind, inspect.IntType) and _WHOLE.fullmatch(node.text):
        value = int(node.text)
    elif node.plain and isinstance(kind, inspect.FloatType) and _NUMBER.fullmatch(node.text):
        value = float(node.text)
    else:
        value = choices(kind).get(node.text)
    if value is None:
        raise wrong_type(node, annotated, key)
    check_limits(value, kind, key, node.place)
    return value


def check_limits(value: Any, kind: inspect.Type, key: str, place: ValueOrigin) -> None:
    """ConfigError when `value`, already of the type, is outside the type's limits."""
    if value == "" and getattr(kind, "min_length", None):
        raise ConfigError(f"`{key}` must not be empty", where=place.where)
    for name, (holds, words) in _LIMITS.items():
        limit = getattr(kind, name, None)
        if limit is not None and not holds(value, limit):
            shown = str(int(limit)) if isinstance(limit, float) and limit.is_integer() else str(limit)
            raise ConfigError(
                f"`{key}` must be {words.format(shown)}, not {excerpt(str(value))}", where=place.where
            )


def _duration(node: Scalar, key: str) -> float:
    try:
        return parse_duration_s(node.text)
    except UsageError as error:
        raise ConfigError(f"`{key}`: {error.message}", where=node.place.where, hint=error.hint) from None


def check_text(text: str, what: str) -> None:
    """UsageError for text that no command line and no record can hold: a NUL, or bytes that are not UTF-8."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{what} is not UTF-8 text: {text!a}") from None
    if "\0" in text:
        raise UsageError(f"{what} holds a NUL character: {text!a}")
