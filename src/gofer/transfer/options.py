"""How to transfer, and what to leave as it is."""

from __future__ import annotations

from typing import NamedTuple


class TransferOptions(NamedTuple):
    """`jobs` 0 lets gofer find how many requests at a time serve best. `checksum` compares files of one size
    by content instead of by time. `delete` removes what the source does not have."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    checksum: bool = False
    delete: bool = False
    jobs: int = 0
