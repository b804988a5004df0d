"""Where the working copy of a run is that stayed on a machine, since it holds more than may be kept."""

from __future__ import annotations

import os
from typing import Iterable, Optional

from gofer.core.code import trees


def name_of(run_id: str, attempt: int, node: int) -> str:
    """The name of a copy in one of the folders of `Keeping.copies`."""
    return f"{run_id}.{attempt}.{node}"


def find(tops: Iterable[str], run_id: str, attempts: Iterable[int], node: int) -> Optional[str]:
    """The copy of the first of these attempts that left one on this machine; None where none did.

    Only names below the user's own folders are looked at: what a record in a store says of a path is not.
    """
    folders = list(tops)
    for attempt in attempts:
        for top in folders:
            path = os.path.join(top, name_of(run_id, attempt, node))
            if os.path.isdir(path) and not os.path.islink(path):
                return path
    return None


def take(source: str, destination: str) -> None:
    """A second name for a file of the copy, or a copy of the file where the disk is another one."""
    try:
        os.link(source, destination, follow_symlinks=False)
    except OSError:
        trees.copy_file(source, destination)
