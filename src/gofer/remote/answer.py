"""The answer of a verb."""

from __future__ import annotations

from typing import Any, NamedTuple


class Answer(NamedTuple):
    """The result of a verb: a JSON value, and bytes if there are any."""

    value: Any = None
    data: bytes = b""
