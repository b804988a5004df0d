"""The agent as one zip file that Python runs: `agent.zip FOLDER …` on Azure ML, `agent.zip kubernetes …` in a
pod.

The zip is unpacked once on each node, because every process would otherwise decompress its modules again. The
program then restarts from the folder with the same arguments. Several processes may do this at once.
gofer.transport.bundle makes the zip.
"""

from __future__ import annotations

import os
import sys
from typing import List, NoReturn

from gofer.core import agent_installer, private_folder
from gofer.node.kubernetes import python_copy
from gofer.node.kubernetes.places import PROGRAM, WORK_FOLDER


def main() -> NoReturn:
    """Run the agent; never returns. Started from the zip, it unpacks the zip and restarts from the folder."""
    place = sys.path[0]
    if os.path.isfile(place):
        folder = unpack(place, private_folder.own_folder([WORK_FOLDER, os.environ.get("TMPDIR", "")]))
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-E", "-s", folder, *sys.argv[1:]])
    if sys.argv[1:2] == [python_copy.PROGRAM]:
        sys.exit(python_copy.main(sys.argv[2:]))
    if sys.argv[1:2] == [PROGRAM]:
        sys.exit(_run_in_pod(sys.argv[2:]))
    sys.exit(_run_on_azure(sys.argv[1:]))


def _run_in_pod(argv: List[str]) -> int:
    from gofer.node.kubernetes.program import main as node

    return node(argv)


def _run_on_azure(argv: List[str]) -> int:
    from gofer.node.azure.program import main as node

    return node(argv)


def unpack(archive: str, top: str) -> str:
    """Install the agent of the zip file in `<top>/agent`; its folder. Idempotent."""
    import zipfile

    with zipfile.ZipFile(archive) as packed:
        mark = packed.read("mark").decode("ascii")
    agents = os.path.join(top, "agent")
    private_folder.make_missing(agents)
    with open(archive, "rb") as file:
        return agent_installer.install(file, agents, mark)
