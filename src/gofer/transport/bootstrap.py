"""The Python program that installs and starts the agent on a machine.

Its first part runs on every version of Python 3. The second part needs Python 3.8; before the agent is there,
it uses the text of two modules of gofer that import nothing of gofer.
"""

from __future__ import annotations

import base64

NEEDED = "needed"
READY = "ready"

_VERSION_CHECK = """
import sys
nonce, mark, folder = sys.argv[1:4]
def say(word):
    sys.stdout.write("\\n" + nonce + " " + word + "\\n")
    sys.stdout.flush()
if sys.version_info < (3, 8):
    say("%d.%d" % sys.version_info[:2])
    sys.exit(3)
"""
# `ready` comes from the agent itself when it can answer. `os.utime` refreshes the time of the agent's folder,
# which `prune` takes as the time of its last use.
_START = """
import io, os
agents = os.path.join(os.path.expanduser(folder), "agent")
try:
    make(agents, owned=2)
except PermissionError as error:
    # The error's own advice is for the folders of this machine's user, not for the folder of a target.
    sys.exit(str(error).partition(": set ")[0] + ": name another folder in the target")
agent = os.path.join(agents, mark)
try:
    os.utime(agent)
except OSError:
    pass
if not os.path.isdir(agent):
    say("needed")
    size = int(sys.stdin.buffer.readline())
    install(io.BytesIO(sys.stdin.buffer.read(size)), agents, mark)
sys.path.insert(0, agent)
from gofer.remote.server import serve
serve(nonce + " ready")
"""


def command(python: str, folder: str, nonce: str) -> list[str]:
    """The command line for the machine. The program is encoded, so that no shell on the way changes it."""
    from gofer.transport.bundle import mark, source

    parts = (
        _VERSION_CHECK.encode(),
        source("core/private_folder.py"),
        source("core/agent_installer.py"),
        _START.encode(),
    )
    # A part is compiled when the parts before it have run: an old Python never sees newer syntax.
    encoded = ",".join(f"'{base64.b64encode(part).decode('ascii')}'" for part in parts)
    program = f"import base64\nfor part in ({encoded}): exec(base64.b64decode(part))"
    return [python, "-c", program, nonce, mark(), folder]
