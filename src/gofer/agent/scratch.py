"""A folder of this user's on a node, for working copies, copies of folders and the agent itself."""

from __future__ import annotations

import os
import stat
from typing import Iterable


def engine(places: Iterable[str]) -> str:
    """`gofer-<uid>` in the first of the places that is a folder, else in /tmp. PermissionError when what has
    that name is not this user's.
    """
    chosen = next((one for one in places if one and "$" not in one and os.path.isdir(one)), "/tmp")
    path = os.path.join(chosen, f"gofer-{os.getuid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.lstat(path)
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        raise PermissionError(f"{path} is not this user's")
    return path
