"""What a verb answers."""

from __future__ import annotations

from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What a verb found out: a JSON value, and bytes where there are any."""

    value: Any = None
    data: bytes = b""
