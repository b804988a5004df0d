"""What goes wrong with the line, drawn at random."""

from __future__ import annotations

import time
from collections import Counter
from random import Random

from clusters.line import Fault, Line

# A connection's greeting takes some three thousand bytes, a submission some ten thousand more.
_MOST_BYTES = 24_000


class LineFaults:
    """A line that is cut, refused, truncated, stalled and slowed."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._suffered: Counter[str] = Counter()
        self._before = 0

    def make(self, rng: Random) -> None:
        kind = disturb(self._line, rng)
        time.sleep(rng.uniform(0.05, 0.6))
        self._count(kind)
        if kind == "stall" or rng.random() < 0.3:
            self._line.clear()

    def _count(self, kind: str | None) -> None:
        met = self._line.counts().faults
        if kind == "cut":
            self._suffered["cut"] += 1
        elif kind is not None and met > self._before:
            self._suffered[kind] += met - self._before
        self._before = met

    def met_by_clients(self) -> Counter[str]:
        return self._suffered.copy()

    def clear(self) -> None:
        self._line.clear()


def disturb(line: Line, rng: Random) -> str | None:
    """Spoil the line once, now or for the next connection; what was done, None if nothing was open to cut."""
    kind = rng.choice(["drop", "truncate", "drop", "truncate", "stall", "delay", "cut", "refuse"])
    if kind == "cut":
        return kind if line.cut().open else None
    now = rng.random() < 0.6
    side = rng.choice(["up", "down", "both"])
    after = rng.randrange(_MOST_BYTES)
    line.set(Fault(kind, after_bytes=after, side=side, seconds=0.05), times=1, now=now)  # type: ignore[arg-type]
    return kind
