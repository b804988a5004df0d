"""Print JSON on stdout in one form: indented, with keys in order and readable text."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def to_text(value: object) -> str:
    """Indented JSON with a newline at its end; ASCII only where UTF-8 could not carry the text."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    return text + "\n"


def print_json(value: object) -> None:
    """Write `value` to stdout."""
    sys.stdout.write(to_text(value))


def array_text(values: Iterable[object]) -> Iterator[str]:
    """The pieces of what `to_text` returns for a list of these values, one for each value and its ends."""
    before = "[\n  "
    for value in values:
        yield before + to_text(value)[:-1].replace("\n", "\n  ")
        before = ",\n  "
    yield "[]\n" if before[0] == "[" else "\n]\n"


def one_line(value: object) -> str:
    """JSON without line breaks, for arrays that are written as they grow."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value)
    return text
