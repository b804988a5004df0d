"""The options of a transfer."""

from __future__ import annotations

from typing import NamedTuple


class TransferOptions(NamedTuple):
    """With `jobs` 0, gofer finds the best number of requests at a time. `checksum` compares files of equal
    size by content instead of by time. `delete` removes files that the source does not have.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    checksum: bool = False
    delete: bool = False
    jobs: int = 0
