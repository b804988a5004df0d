"""The generations of an elastic run, from the records in its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gofer.core import run_layout
from gofer.ops.runs.run_folder import decode, read

if TYPE_CHECKING:
    from gofer.ops.runs.run_folder import RunFolder
    from gofer.tracking.ledger import RunRow


class _Member(msgspec.Struct, frozen=True, kw_only=True):
    host: str = ""
    slot: int = 0


class _Generation(msgspec.Struct, frozen=True, kw_only=True):
    """`generation.json`: one generation, as its leader wrote it down."""

    number: int
    members: tuple[_Member, ...] = ()
    why: str = ""
    state: str = ""
    detail: str | None = None


def generation_words(folder: RunFolder, row: RunRow) -> str:
    """The last generation of a run, as `3, with node 0, 1 of gpu1: node 1 on gpu1 joined`; "" before the
    first.
    """
    attempt = folder.last_attempt(row)
    key = f"{run_layout.attempts_key(row.id)}/{attempt}/{run_layout.GENERATION}"
    data = read(folder.store, key) if attempt else None
    found = None if data is None else decode(data, _Generation)
    if found is None:
        return ""
    slots: dict[str, list[str]] = {}
    for member in found.members:
        slots.setdefault(member.host, []).append(str(member.slot))
    named = [f"node {', '.join(sorted(numbers))} of {host}" for host, numbers in sorted(slots.items())]
    return f"{found.number}, with {'; '.join(named)}: {found.why}"
