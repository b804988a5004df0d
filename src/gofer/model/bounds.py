"""Limits of the numbers in a record. Anybody with write access to the store may have made a record.

msgspec checks these types when a record is decoded, and does not when gofer itself makes one. A number
outside its limits makes the record invalid: SQLite, dates and durations can hold every number within them.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Seconds = Annotated[float, Meta(ge=-1e11, le=1e11)]
"""A moment since 1970, or a duration."""

Amount = Annotated[float, Meta(ge=-1e15, le=1e15)]
"""A measured size or share."""

Count = Annotated[int, Meta(ge=-(2**31), le=2**31)]
"""A number of things, an index, a priority, an exit code."""

MOST_ROWS = 100_000
"""Rows of an array."""
