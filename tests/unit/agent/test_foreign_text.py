"""JSON and numbers that anybody may have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from gofer.core import files
from gofer.core.json_text import parse_count, parse_json
from gofer.node.kept.records import KeptFile, decode_list

DEEP = '{"a":' * 100_000


@pytest.mark.parametrize(
    "text", [DEEP, "[" * 100_000, "", "{", "\ud800", b"\xff", b"\x00", "9" * 5000, "nul", '{"a":1}{']
)
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


def test_json_is_read() -> None:
    assert parse_json('{"a": [1, "\\ud800", 1e999]}') == {"a": [1, "\ud800", float("inf")]}
    assert parse_json(b'"\xc3\xa9"') == "é"


def test_a_line_or_a_file_that_is_nested_too_deeply_is_none(tmp_path: Path) -> None:
    data = b'{"id": 1}\n' + DEEP.encode() + b'\n{"id": 2}\n'
    assert list(files.read_lines(data)) == [{"id": 1}, {"id": 2}]
    path = tmp_path / "x.json"
    path.write_text(DEEP)
    assert files.read_json(str(path)) is None
    kept = KeptFile("files", "a", "f", 1, 2, 0o644)
    assert list(decode_list(DEEP.encode() + b"\n" + kept.encode())) == [kept]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, None),
        ("9" * 5000, None),
        ("²", None),
        ("\u0661", None),
        ("-1", None),
        ("+1", None),
        (" 1", None),
        ("1_0", None),
        ("", None),
        ("1.0", None),
    ],
)
def test_a_count_is_ascii_digits_and_not_too_many(text: str, number: int | None) -> None:
    assert parse_count(text) == number
