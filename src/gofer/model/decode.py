"""Records from bytes that may come from anybody: a value of the wanted shape, or None."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

T = TypeVar("T")


def decode(data: bytes | None, kind: type[T]) -> T | None:
    """The value, or None where there is no data or the data is not of this shape. Raises nothing."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_odd(data, kind)
    except RecursionError:
        return None


def _decode_odd(data: bytes, kind: type[T]) -> T | None:
    """Text that is not UTF-8 is written as lone surrogates, which msgspec refuses and json takes."""
    try:
        return convert(json.loads(data, parse_constant=_refuse_constant), kind)
    except (ValueError, RecursionError):
        return None


def convert(value: object, kind: type[T]) -> T | None:
    """The value of JSON as a `kind`; None where the value is not of this shape. Raises nothing."""
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except (ValueError, RecursionError):  # ValidationError, and UnicodeEncodeError for a lone surrogate
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of a record")
