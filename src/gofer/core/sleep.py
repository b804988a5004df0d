"""A short sleep that does not look at any clock the caller may be given.

`time.sleep` waits until a moment of a clock; under a preloaded clock that is set back, as in our drills, that
moment can lie before the beginning of time, and the call fails (seen with libfaketime 0.9.10).
"""

from __future__ import annotations

import select


def pause(seconds: float) -> None:
    """Blocks for about that long, less when a signal comes."""
    select.select([], [], [], seconds)
