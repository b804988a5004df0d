"""What every cluster asks of its user, its machine and its folder before it starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from clusters.errors import ClusterError


def checked_folder(folder: Path, *, what: str, programs: Sequence[str], down: str) -> Path:
    """The absolute folder; ClusterError unless this is root, the programs exist and the folder is empty."""
    folder = folder.resolve()
    if os.geteuid():
        raise ClusterError(f"{what} is started as root")
    for program in programs:
        if not shutil.which(program):
            raise ClusterError(f"there is no `{program}`: `bash scripts/apt-packages.sh` installs it")
    if folder.exists() and any(folder.iterdir()):
        raise ClusterError(f"{folder} is not empty: `{down}` ends and removes the cluster in it")
    return folder
