"""The agent as one zip file that Python runs: `python3 agent.zip FOLDER …`.

The zip is unpacked once on each node, because every process would otherwise decompress its modules again. The
program then restarts from the folder with the same arguments. Several processes may do this at once.
gofer.transport.bundle makes the zip.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from gofer.core import agent_installer, private_folder


def main() -> NoReturn:
    """Run the agent; never returns. Started from the zip, it unpacks the zip and restarts from the folder."""
    place = sys.path[0]
    if os.path.isfile(place):
        folder = unpack(place, private_folder.own_folder([os.environ.get("TMPDIR", "")]))
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-E", "-s", folder, *sys.argv[1:]])
    from gofer.node.azure.program import main as node

    sys.exit(node(sys.argv[1:]))


def unpack(archive: str, top: str) -> str:
    """Install the agent of the zip file in `<top>/agent`; its folder. Idempotent."""
    import zipfile

    with zipfile.ZipFile(archive) as packed:
        mark = packed.read("mark").decode("ascii")
    agents = os.path.join(top, "agent")
    private_folder.make_missing(agents)
    with open(archive, "rb") as file:
        return agent_installer.install(file, agents, mark)
