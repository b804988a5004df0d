"""Parses dates in HTTP's format."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# The usual format: `Sun, 06 Nov 1994 08:49:37 GMT`. The parser of the standard library is much slower.
_USUAL = re.compile(r"[A-Z][a-z]{2}, (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT")
_REMEMBERED = 10_000


def parse_http_date(text: str, known: dict[str, float] = {}) -> float:  # noqa: B006
    """Seconds since the epoch; 0 for other text.

    Results are cached, since listings repeat few dates often.
    """
    found = known.get(text)
    if found is None:
        # A bound, because a process may list stores for days.
        if len(known) > _REMEMBERED:
            known.clear()
        found = known[text] = _seconds(text)
    return found


def _seconds(text: str) -> float:
    usual = _USUAL.fullmatch(text)
    try:
        if usual:
            day, month, year, *clock = usual.groups()
            hour, minute, second = map(int, clock)
            month_number = _MONTHS.index(month) + 1
            moment = datetime(int(year), month_number, int(day), hour, minute, second, tzinfo=timezone.utc)
            return moment.timestamp()
        from email.utils import parsedate_to_datetime  # slow to load

        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, IndexError):
        return 0.0
