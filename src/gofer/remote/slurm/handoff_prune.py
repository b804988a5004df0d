"""Lists and removes the handoff folders of runs that have ended.

Where no record in the store says that a run has ended, a stub of its folder stays: that the run was sent to
Slurm, refused or stopped. Without the stub, a ledger made again from the store would send the run once more.
"""

from __future__ import annotations

import os
import re
from typing import Iterator

from gofer.core import prune
from gofer.core.prune import KeptItem
from gofer.node.slurm import handoff

HANDOFF = "room"
# The form of gofer's run ids; see gofer.model.ids.
_OURS = re.compile(r"r\d{6}-\d{6}-[a-z0-9]+")


def folders(folder: str) -> Iterator[KeptItem]:
    """Every handoff folder; `about` is `stub` for a folder that has only its stub left."""
    top = os.path.join(folder, "slurm")
    for name in prune.names_in(top):
        path = os.path.join(top, name)
        if _OURS.fullmatch(name) and os.path.isdir(path):
            names = prune.names_in(path)
            is_stub = bool(names) and all(_stays(entry) for entry in names)
            about = "stub" if is_stub else ""
            yield KeptItem(HANDOFF, name, prune.size_of(path), prune.time_of(path), about)


def remove(folder: str, request_id: str, *, whole: bool) -> None:
    """Remove the folder, or everything but its stub. Idempotent."""
    path = os.path.join(folder, "slurm", os.path.basename(request_id))
    if whole:
        aside = prune.set_aside(folder, path)
        if aside is not None:
            prune.delete(aside)
        return
    for name in prune.names_in(path):
        if not _stays(name):
            prune.delete(os.path.join(path, name))


def _stays(name: str) -> bool:
    return name in (handoff.JOB, handoff.REJECTED) or name == "cancel" or name.startswith("cancel-")
