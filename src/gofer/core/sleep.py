"""A short sleep that does not depend on any clock.

`time.sleep` waits until a clock reaches a time. The fault drills preload a clock that is set back; then that
time can be negative, and the call fails (seen with libfaketime 0.9.10).
"""

from __future__ import annotations

import select


def pause(seconds: float) -> None:
    """Block for about this time, or less when a signal arrives."""
    select.select([], [], [], seconds)
