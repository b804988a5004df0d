"""What goes wrong with the line, drawn at random."""

from __future__ import annotations

from random import Random

from clusters.line import Fault, Line

# A connection's greeting takes some three thousand bytes, a submission some ten thousand more.
_MOST_BYTES = 24_000


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
