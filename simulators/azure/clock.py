"""The simulator's idea of the time, which a test may set wrong, and the service's ways of writing it."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


class Clock:
    """Seconds since the epoch, off by `skew_s`."""

    def __init__(self) -> None:
        self.skew_s = 0.0

    def now(self) -> float:
        return time.time() + self.skew_s


def stamp(seconds: float) -> str:
    """As ARM writes a time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def plain_stamp(seconds: float) -> str:
    """As a SAS and the run's properties write it, without the fraction."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration_s(text: str) -> float:
    """An ISO 8601 duration of days and less; ValueError for anything else."""
    found = _DURATION.fullmatch(text)
    if not found or text in ("P", "PT"):
        raise ValueError(text)
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
