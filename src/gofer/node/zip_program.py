"""The agent as one zip file that Python runs: `python3 agent.zip FOLDER …`.

The zip is unpacked once on each node, because every process would otherwise decompress its modules again. The
program then restarts from the folder with the same arguments. Several processes may do this at once.
gofer.transport.bundle makes the zip.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from typing import NoReturn

from gofer.core import private_folder, scratch


def main() -> NoReturn:
    """Run the agent; never returns. Started from the zip, it unpacks the zip and restarts from the folder."""
    place = sys.path[0]
    if os.path.isfile(place):
        folder = unpack(place, scratch.own_folder([os.environ.get("TMPDIR", "")]))
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-E", "-s", folder, *sys.argv[1:]])
    from gofer.node.azure.program import main as node

    sys.exit(node(sys.argv[1:]))


def unpack(archive: str, queue_home: str) -> str:
    """Unpack the archive into a folder that is named by its mark; the folder. Idempotent."""
    import zipfile

    with zipfile.ZipFile(archive) as packed:
        folder = os.path.join(queue_home, "agent", packed.read("mark").decode("ascii"))
        if not os.path.isdir(folder):
            private_folder.make_missing(os.path.dirname(folder))
            part = tempfile.mkdtemp(dir=os.path.dirname(folder))
            packed.extractall(part)
            _move(part, folder)
    return folder


def _move(part: str, folder: str) -> None:
    try:
        os.rename(part, folder)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
        if not os.path.isdir(folder):
            raise
