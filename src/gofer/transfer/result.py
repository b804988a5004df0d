"""The result of a transfer."""

from __future__ import annotations

from typing import NamedTuple

from gofer.transfer.notes import Notes


class TransferResult(NamedTuple):
    """What was done and what was not.

    `failed` files could not be moved. `changed` files were written to during the read. `odd` files are not
    regular files. `kept` counts the deletions that were not done because of any of these.
    """

    files: int
    bytes: int
    skipped: int
    deleted: int
    kept: int
    failed: Notes
    changed: Notes
    odd: Notes
    elapsed_s: float

    @property
    def ok(self) -> bool:
        """Whether the destination now has everything that the source has."""
        return not self.failed and not self.changed and not self.odd
