"""Decodes nodes into typed values. An error names the file, the line, the key and what was expected.

Reads any Struct, by `msgspec.inspect`. Text stays as written, so that `no`, `0.10` and `1e3` stay the same
where text is wanted. Where text is wanted, a reference is checked and kept; where a number or a word is
wanted, it is looked up through `resolve`, or accepted unchecked when there is no `resolve`. Flags are checked
by the same functions, so that a flag and a file get the same messages.

`msgspec.convert` does not replace this module. It stops at the first bare `Expected int, got str - at $.a.b`,
without the choices, the near misses and the value that was written; it cannot leave a reference for later;
and its lax mode reads other spellings of numbers and Booleans than these files have. All of these would have
to be built around it, from the same types.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from msgspec import inspect

from gofer.config.references import holds_reference, references
from gofer.config.yaml.nodes import Items, Node, Scalar, Table, ValueOrigin, is_null
from gofer.config.yaml.problems import STRICT, Problems
from gofer.errors import ConfigError, UsageError
from gofer.text import did_you_mean, parse_duration_s

_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?")
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
# Where any value is allowed, `no` and `on` are text, as in YAML 1.2.
_TEXT = inspect.StrType()
_BOOLEANS = {"true": True, "false": False}
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

Resolve = Callable[[str], str]
_MAPS = (inspect.StructType, inspect.DictType)
_LISTS = (inspect.VarTupleType, inspect.ListType)


def excerpt(text: str) -> str:
    """A value for a one-line message: escaped, shortened, in backticks."""
    safe = text if text.isprintable() else ascii(text)[1:-1]
    return f"`{safe[:60]}…`" if len(safe) > 60 else f"`{safe}`"


def without_metadata(kind: inspect.Type) -> tuple[inspect.Type, Mapping[str, Any]]:
    """The type without its annotations, and their `extra` entries."""
    if isinstance(kind, inspect.Metadata):
        return kind.type, kind.extra or {}
    return kind, {}


def allowed_words(kind: inspect.Type) -> dict[str, Any]:
    """The words of an enumeration or Literal, with their values; empty for other types."""
    if isinstance(kind, inspect.EnumType):
        return {str(member.value): member for member in kind.cls}
    if isinstance(kind, inspect.LiteralType):
        return {str(value): value for value in kind.values}
    return {}


def describe(kind: inspect.Type) -> str:
    """What a value of the type is called in a message: `a whole number`, `one of …`."""
    kind, extra = without_metadata(kind)
    if "duration" in extra:
        return "a length of time"
    if isinstance(kind, inspect.UnionType):
        return " or ".join(
            dict.fromkeys(describe(one) for one in kind.types if not isinstance(one, inspect.NoneType))
        )
    words = allowed_words(kind)
    if words:
        return f"one of {', '.join(f'`{word}`' for word in sorted(words))}"
    return _NAMES.get(type(kind), "a value")


def wrong_type(node: Node, kind: inspect.Type, key: str) -> ConfigError:
    """The error for a value of the wrong type."""
    if isinstance(node, Scalar):
        found = "nothing" if is_null(node) else f"{'' if node.plain else 'the text '}{excerpt(node.text)}"
        hint = did_you_mean(node.text, allowed_words(without_metadata(kind)[0]))
    else:
        found, hint = "a list" if isinstance(node, Items) else "a map", None
    return ConfigError(f"`{key}` must be {describe(kind)}, not {found}", where=node.place.where, hint=hint)


def parse_boolean(node: Scalar) -> bool | None:
    """The meaning of an unquoted word for true or false; None for any other text."""
    return _TRUTHS.get(node.text.lower()) if node.plain else None


def read_scalar(node: Scalar, annotated: inspect.Type, key: str) -> Any:
    """The text as a value of a single-valued type, within its limits; ConfigError otherwise."""
    kind, extra = without_metadata(annotated)
    value: Any = None
    if "duration" in extra:
        value = _duration(node, key)
        kind = inspect.FloatType(gt=0.0) if extra["duration"] == "positive" else inspect.FloatType(ge=0.0)
    elif isinstance(kind, (inspect.StrType, inspect.AnyType)):
        value = node.text
    elif node.plain and isinstance(kind, inspect.BoolType):
        value = parse_boolean(node)
    elif node.plain and isinstance(kind, inspect.IntType) and _WHOLE.fullmatch(node.text):
        value = int(node.text)
    elif node.plain and isinstance(kind, inspect.FloatType) and _NUMBER.fullmatch(node.text):
        value = float(node.text)
    else:
        value = allowed_words(kind).get(node.text)
    if value is None:
        raise wrong_type(node, annotated, key)
    check_limits(value, kind, key, node.place, form=extra.get("form"))
    return value


def check_limits(
    value: Any, kind: inspect.Type, key: str, place: ValueOrigin, *, form: str | None = None
) -> None:
    """ConfigError when `value`, already of the type, is outside the type's limits.

    `form` says in words what the type's pattern matches.
    """
    if value == "" and getattr(kind, "min_length", None):
        raise ConfigError(f"`{key}` must not be empty", where=place.where)
    for name, (holds, limit_words) in _LIMITS.items():
        limit = getattr(kind, name, None)
        if limit is not None and not holds(value, limit):
            words = form if name == "pattern" and form else limit_words
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
    """UsageError for text that no command line or record can contain: a NUL, or bytes that are not UTF-8."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{what} is not UTF-8 text: {text!a}") from None
    if "\0" in text:
        raise UsageError(f"{what} holds a NUL character: {text!a}")


def unknown_key(name: str, place: ValueOrigin, *, inside: str, known: Iterable[str]) -> ConfigError:
    """The error for a key that is not one of `known`."""
    names = sorted(known)
    hint = did_you_mean(name, names) or f"the keys are {', '.join(f'`{one}`' for one in names)}"
    section = f" in `{inside}`" if inside else ""
    return ConfigError(f"unknown key {excerpt(name)}{section}", where=place.where, hint=hint)


@cache
def struct_type(struct: type) -> inspect.StructType:
    """What msgspec knows of a Struct."""
    kind = inspect.type_info(struct)
    if not isinstance(kind, inspect.StructType):
        raise TypeError(f"{struct!r} is not a msgspec Struct")
    return kind


class Decoder:
    """Decodes nodes. Without `resolve` it only checks: a value that depends on a reference becomes None.

    With `partial` a missing key is no error, since another file may have it, and no Struct is made. Each key
    is a step of `problems`.
    """

    def __init__(
        self, resolve: Resolve | None = None, *, partial: bool = False, problems: Problems = STRICT
    ) -> None:
        self._resolve = resolve
        self._partial = partial
        self._problems = problems
        self._deferred = False

    def value(self, node: Node, annotated: inspect.Type, key: str) -> Any:
        """The node as a value of the type; ConfigError when it is not one."""
        kind, _ = without_metadata(annotated)
        if isinstance(kind, inspect.UnionType):
            return self._one_of(node, kind, key)
        if isinstance(kind, inspect.AnyType):
            return self._anything(node, key)
        if isinstance(node, Table) and isinstance(kind, inspect.StructType):
            return self.struct(node.entries, kind, key, node.place)
        if isinstance(node, Table) and isinstance(kind, inspect.DictType):
            return self._dict(node.entries, kind, key)
        if isinstance(node, Items) and isinstance(kind, _LISTS):
            items = [self.value(item, kind.item_type, f"{key}[{i}]") for i, item in enumerate(node.items)]
            return items if isinstance(kind, inspect.ListType) else tuple(items)
        if isinstance(node, Scalar) and not node.is_null and not isinstance(kind, _MAPS + _LISTS):
            return self._scalar(node, annotated, key)
        raise wrong_type(node, annotated, key)

    def struct(
        self, entries: Mapping[str, Node], kind: inspect.StructType, key: str, place: ValueOrigin
    ) -> Any:
        """An instance of the Struct; None when only checking and a value could not be known."""
        before = len(self._problems.found)
        values = self.fields(entries, kind, key, place)
        if self._deferred or self._partial or len(self._problems.found) > before:
            return None
        try:
            return kind.cls(**values)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"`{key}`: {error}", where=place.where) from None

    def fields(
        self, entries: Mapping[str, Node], kind: inspect.StructType, key: str, place: ValueOrigin
    ) -> dict[str, Any]:
        """The values of the keys that are there; unknown and missing keys are errors."""
        known = {field.encode_name: field for field in kind.fields}
        values = {}
        for name, node in entries.items():
            with self._problems:
                if name not in known:
                    raise unknown_key(name, node.place, inside=key, known=known)
                path = f"{key}.{name}" if key else name
                values[known[name].name] = self.value(node, known[name].type, path)
        for name, field in known.items():
            if field.required and name not in entries and not self._partial:
                self._problems.add(ConfigError(f"`{key}` needs the key `{name}`", where=place.where))
        return values

    def _one_of(self, node: Node, kind: inspect.UnionType, key: str) -> Any:
        if is_null(node) and kind.includes_none:
            return None
        fitting = [one for one in kind.types if _may_be(node, without_metadata(one)[0])]
        # Text accepts anything, so it is tried last.
        fitting.sort(key=lambda one: isinstance(without_metadata(one)[0], inspect.StrType))
        for choice in fitting[:-1]:
            attempt = Decoder(self._resolve, partial=self._partial)
            try:
                value = attempt.value(node, choice, key)
            except ConfigError:
                continue
            self._deferred |= attempt._deferred
            return value
        if not fitting:
            raise wrong_type(node, kind, key)
        return self.value(node, fitting[-1], key)

    def _dict(self, entries: Mapping[str, Node], kind: inspect.DictType, key: str) -> dict[str, Any]:
        values = {}
        for name, node in entries.items():
            with self._problems:
                check_name(name, kind, key, node.place)
                values[name] = self.value(node, kind.value_type, f"{key}.{name}")
        return values

    def _anything(self, node: Node, key: str) -> Any:
        """What the YAML says: a map, a list, or a single value. An unquoted number is a number, and an
        unquoted true or false is a Boolean.
        """
        if isinstance(node, Table):
            return {name: self._anything(one, f"{key}.{name}") for name, one in node.entries.items()}
        if isinstance(node, Items):
            return [self._anything(item, f"{key}[{i}]") for i, item in enumerate(node.items)]
        if is_null(node):
            return None
        text = node.text
        if node.plain and text in _BOOLEANS:
            return _BOOLEANS[text]
        if node.plain and _WHOLE.fullmatch(text):
            return int(text)
        return float(text) if node.plain and _NUMBER.fullmatch(text) else self._scalar(node, _TEXT, key)

    def _scalar(self, node: Scalar, annotated: inspect.Type, key: str) -> Any:
        kind, extra = without_metadata(annotated)
        if "verbatim" in extra or not _refers(node, key):
            return read_scalar(node, annotated, key)
        if isinstance(kind, (inspect.StrType, inspect.AnyType)) and "duration" not in extra:
            return node.text
        if self._resolve is None:
            self._deferred = True
            return None
        try:
            text = self._resolve(node.text)
        except ConfigError as error:
            raise ConfigError(f"`{key}`: {error.message}", where=node.place.where, hint=error.hint) from None
        return read_scalar(Scalar(text, node.place), annotated, key)


def check_name(name: str, kind: inspect.DictType, key: str, place: ValueOrigin) -> None:
    """ConfigError when `name` cannot be a name in that map."""
    rule, extra = without_metadata(kind.key_type)
    form = extra.get("form", "another name")
    pattern, longest = getattr(rule, "pattern", None), getattr(rule, "max_length", None)
    # `$` of a regular expression also matches before a last newline, which no name may end with.
    if (pattern and not re.search(pattern.replace("$", r"\Z"), name)) or (longest and len(name) > longest):
        raise ConfigError(
            f"{excerpt(name)} cannot be a name in `{key}`",
            where=place.where,
            hint=f"write {form}, of at most {longest} characters",
        )


def _may_be(node: Node, kind: inspect.Type) -> bool:
    """Whether the node has the shape of the type: a map, a list, or a single value."""
    if isinstance(node, Table):
        return isinstance(kind, _MAPS)
    if isinstance(node, Items):
        return isinstance(kind, _LISTS)
    return not node.is_null and not isinstance(kind, (*_MAPS, *_LISTS, inspect.NoneType))


def _refers(node: Scalar, key: str) -> bool:
    """Whether the text holds references; ConfigError when one of them cannot be read."""
    try:
        found = [*references(node.text)]
    except ConfigError as error:
        raise ConfigError(f"`{key}`: {error.message}", where=node.place.where, hint=error.hint) from None
    return bool(found) or holds_reference(node.text)
