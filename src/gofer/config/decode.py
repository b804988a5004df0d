"""Nodes become typed values, or an error that names the file, the line, the key and what was expected.

Driven by `msgspec.inspect`, so any Struct can be read. Text stays as written, which keeps `no`, `0.10` and
`1e3` what they are where text is wanted. A reference where text is wanted is checked and kept; where a number
or a word is wanted it is looked up through `resolve`, or, without one, taken on trust.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from msgspec import inspect

from gofer.config.nodes import Items, Node, Scalar, Table, ValueOrigin, is_null
from gofer.config.references import holds_reference, references
from gofer.config.scalars import bare, excerpt, read_scalar, wrong_type
from gofer.errors import ConfigError
from gofer.text import did_you_mean

Resolve = Callable[[str], str]
_MAPS = (inspect.StructType, inspect.DictType)
_LISTS = (inspect.VarTupleType, inspect.ListType)


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
    """Reads nodes. Without `resolve` it only checks: what hangs on a reference comes out as None.

    With `partial` a missing key is no error, since another file may have it, and no Struct is made.
    """

    def __init__(self, resolve: Resolve | None = None, *, partial: bool = False) -> None:
        self._resolve = resolve
        self._partial = partial
        self._deferred = False

    def value(self, node: Node, annotated: inspect.Type, key: str) -> Any:
        """The node as a value of the type; ConfigError when it is not one."""
        kind, _ = bare(annotated)
        if isinstance(kind, inspect.UnionType):
            return self._one_of(node, kind, key)
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
        values = self.fields(entries, kind, key, place)
        if self._deferred or self._partial:
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
            if name not in known:
                raise unknown_key(name, node.place, inside=key, known=known)
            values[known[name].name] = self.value(node, known[name].type, f"{key}.{name}" if key else name)
        for name, field in known.items():
            if field.required and name not in entries and not self._partial:
                raise ConfigError(f"`{key}` needs the key `{name}`", where=place.where)
        return values

    def _one_of(self, node: Node, kind: inspect.UnionType, key: str) -> Any:
        if is_null(node) and kind.includes_none:
            return None
        fitting = [one for one in kind.types if _may_be(node, bare(one)[0])]
        # Text accepts anything, so it is tried last.
        fitting.sort(key=lambda one: isinstance(bare(one)[0], inspect.StrType))
        for choice in fitting[:-1]:
            try:
                return self.value(node, choice, key)
            except ConfigError:
                continue
        if not fitting:
            raise wrong_type(node, kind, key)
        return self.value(node, fitting[-1], key)

    def _dict(self, entries: Mapping[str, Node], kind: inspect.DictType, key: str) -> dict[str, Any]:
        for name, node in entries.items():
            check_name(name, kind, key, node.place)
        return {name: self.value(node, kind.value_type, f"{key}.{name}") for name, node in entries.items()}

    def _scalar(self, node: Scalar, annotated: inspect.Type, key: str) -> Any:
        kind, extra = bare(annotated)
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
    rule, _ = bare(kind.key_type)
    pattern, longest = getattr(rule, "pattern", None), getattr(rule, "max_length", None)
    # `$` of a regular expression also matches before a last newline, which no name may end with.
    if (pattern and not re.search(pattern.replace("$", r"\Z"), name)) or (longest and len(name) > longest):
        raise ConfigError(
            f"{excerpt(name)} cannot be a name in `{key}`",
            where=place.where,
            hint=f"a name here matches `{pattern}` and has at most {longest} characters",
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
