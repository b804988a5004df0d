"""The names of runs: `r261116-091233-k9qd4x`, and `<group>-<i>` for row i of an array.

The first two parts are the time of submission in UTC, so ids sort by age; the third is chance. The id is
the idempotency key of a submission and the job's name on the cluster: lower case, digits and dashes only.
"""

from __future__ import annotations

import os
import time

# No vowels, so no words; no `l`, `y`, 0 or 1, so nothing to misread.
ALPHABET = "bcdfghjkmnpqrstvwxz23456789"
RANDOM_CHARS = 6
_ID_PARTS = 3
_FAIR_BYTES = 256 - 256 % len(ALPHABET)


def new_run_id(now: float) -> str:
    """A fresh id for a run or a group submitted at `now` (seconds since the epoch)."""
    return time.strftime("r%y%m%d-%H%M%S-", time.gmtime(now)) + _random_part()


def short_id(run_id: str) -> str:
    """What follows the second dash (`k9qd4x`, `k9qd4x-17`): what people type and tables show."""
    return run_id.split("-", 2)[-1]


def row_id(group_id: str, index: int) -> str:
    """The id of row `index`, counted from 0, of a group."""
    return f"{group_id}-{index}"


def split_row(run_id: str) -> tuple[str, int | None]:
    """The group's id and the row's index; `(run_id, None)` when the id is not that of a row."""
    group, dash, index = run_id.rpartition("-")
    if dash and group.count("-") == _ID_PARTS - 1 and index.isascii() and index.isdigit():
        return group, int(index)
    return run_id, None


def _random_part() -> str:
    """Each character alike likely: bytes past the last whole multiple of the alphabet are thrown away."""
    chars: list[str] = []
    while len(chars) < RANDOM_CHARS:
        chars += [ALPHABET[byte % len(ALPHABET)] for byte in os.urandom(8) if byte < _FAIR_BYTES]
    return "".join(chars[:RANDOM_CHARS])
