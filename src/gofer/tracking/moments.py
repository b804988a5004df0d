"""Times as people write them in filters: a day, a minute or a second, each an interval."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta

from gofer.text import parse_time

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_STEPS_S = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d"), 60.0),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d"), 1.0),
)
_DAYS_BACK = {"today": 0, "yesterday": 1}


def moment(text: str, now: float) -> tuple[float, float]:
    """The first instant of the interval, and the first one after it; UsageError when the text is not a time.

    `today`, `yesterday` and `2026-03-01` are days in this machine's time zone, which may have 23, 24 or 25
    hours. A time with a zone or a fraction of a second is a single instant.
    """
    value = text.strip()
    if value in _DAYS_BACK:
        value = (datetime.fromtimestamp(now).date() - timedelta(days=_DAYS_BACK[value])).isoformat()
    start = parse_time(value)
    if _DAY.fullmatch(value):
        return start, _next_day(value)
    for form, step_s in _STEPS_S:
        if form.fullmatch(value):
            return start, start + step_s
    return start, math.nextafter(start, math.inf)


def _next_day(day: str) -> float:
    """The first instant after a day; infinity after the last day that a date can represent."""
    try:
        return parse_time((date.fromisoformat(day) + timedelta(days=1)).isoformat())
    except OverflowError:
        return math.inf
