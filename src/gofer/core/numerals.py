"""Whole numbers in text that may come from anybody."""

from __future__ import annotations

from typing import Optional

# Every number of so many digits fits into 63 bits, which SQLite, struct and the system calls can hold.
_MOST_DIGITS = 18


def parse_count(text: str) -> Optional[int]:
    """The number that `text` is in ASCII digits alone; None for other text and for more than 18 digits.

    `str.isdigit` is no such test: it takes `²`, which `int` refuses, and text that is too long for `int`.
    """
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    return int(text)
