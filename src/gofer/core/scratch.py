"""A folder of this user's on a node, for working copies, copies of folders and the agent itself."""

from __future__ import annotations

import os
from typing import Iterable

from gofer.core import private_folder


def engine(places: Iterable[str]) -> str:
    """`gofer-<uid>` in the first of the places that is a folder, else in /tmp. PermissionError when what has
    that name is not this user's.
    """
    chosen = next((one for one in places if one and "$" not in one and os.path.isdir(one)), "/tmp")
    path = os.path.join(chosen, f"gofer-{os.getuid()}")
    if os.path.islink(path):
        raise private_folder.ForeignFolder(f"{path} is a link and not this user's own folder")
    private_folder.make(path)
    return path
