"""Read JSON and whole numbers that anybody may have written."""

from __future__ import annotations

import json
from typing import Any, Optional, Union

# Every number of at most this many digits fits into 63 bits, the limit of SQLite, struct and system calls.
_MOST_DIGITS = 18


def parse_json(text: Union[str, bytes, bytearray]) -> Any:
    """The value; ValueError for everything that is not JSON, and for JSON that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_count(text: str) -> Optional[int]:
    """The number in `text`, which must be ASCII digits only; None for other text and for more than 18 digits.

    `str.isdigit` is not enough: it accepts `²`, which `int` refuses, and text that is too long for `int`.
    """
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    return int(text)
