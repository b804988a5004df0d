"""Installs an agent: unpacks its zip file into a folder that is named by its mark.

gofer.transport.bundle sends the text of this file to machines that do not have gofer yet, so it imports
nothing of gofer.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import BinaryIO


def install(archive: BinaryIO, agents: str, mark: str) -> str:
    """Unpack the zip file into `<agents>/<mark>`, unless that folder exists; its path. `agents` must exist.

    Idempotent, also by several processes and machines at once: the folder appears in one step, complete.
    """
    import zipfile  # slow to load, and needed once for each version of gofer

    folder = os.path.join(agents, mark)
    if not os.path.isdir(folder):
        part = tempfile.mkdtemp(dir=agents)
        try:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(part)
            os.rename(part, folder)
        except OSError:
            # A rename onto a folder fails when another process has installed the agent meanwhile.
            shutil.rmtree(part, ignore_errors=True)
            if not os.path.isdir(folder):
                raise
    return folder
