"""Records of a shape from bytes that anybody may have written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gofer.model.decode import decode


class Shape(msgspec.Struct):
    a: int
    text: str = ""


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"{",
        b'{"a": "x"}',
        b'{"a": 1e999}',
        b'{"a": 1, "text": "\xff"}',
        b'{"a": NaN}',
        b'{"a": 1, "x": ' + b"[" * 100_000,
        b"[" * 100_000,
        b"9" * 5000,
        b"\x00" * 50,
    ],
)
def test_what_is_of_another_shape_is_none(data: bytes | None) -> None:
    assert decode(data, Shape) is None


def test_a_record_is_read_also_one_with_lone_surrogates() -> None:
    assert decode(b'{"a": 1, "text": "x", "more": 2}', Shape) == Shape(1, "x")
    assert decode(b'{"a": 1, "text": "\\ud800"}', Shape) == Shape(1, "\ud800")
    assert decode(b'{"b": 1}', dict[str, Any]) == {"b": 1}
