"""The user's own folder on a node, for working copies, copies of folders and the agent itself."""

from __future__ import annotations

import os
from typing import Iterable

from gofer.core import private_folder


def own_folder(places: Iterable[str]) -> str:
    """Make `gofer-<uid>` in the first of the places that is a folder, else in /tmp; its path. PermissionError
    when the name is taken by a link or by another user.
    """
    chosen = next((one for one in places if one and "$" not in one and os.path.isdir(one)), "/tmp")
    path = os.path.join(chosen, f"gofer-{os.getuid()}")
    if os.path.islink(path):
        raise private_folder.ForeignFolder(f"{path} is a link and not this user's own folder")
    private_folder.make(path)
    return path
