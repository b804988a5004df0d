"""The agent as one zip file of Python sources, for machines that have only Python, and how SSH installs it.

Python can also run the file itself; see gofer.node.zip_program. gofer.core.agent_installer unpacks it.
"""

from __future__ import annotations

import base64
import hashlib
import io
from functools import cache
from pathlib import Path
from typing import NamedTuple

_GOFER = Path(__file__).resolve().parents[1]
# The packages that run on nodes. They use only the standard library and each other.
NODE_PACKAGES = ("core", "objects", "node", "queue", "remote")
_MARK_LENGTH = 16
# The name of a file in the zip that holds the mark; the mark does not cover this file. It is a file and not
# the zip's comment, because Pythons before 3.8 do not run archives with a comment.
MARK = "mark"
# In the syntax of every Python, so that an old Python can print the error.
_MAIN = b"""import sys
if sys.version_info < (3, 8):
    sys.exit("gofer: this node has Python %d.%d; gofer needs 3.8 or later" % sys.version_info[:2])
from gofer.node.zip_program import main
main()
"""

# The answers of the program that `bootstrap_command` starts: send the agent, and the agent can be asked.
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


class Bundle(NamedTuple):
    """The agent. `mark` is a hash of the contents: the same sources have the same mark on every machine."""

    mark: str
    data: bytes


@cache
def mark() -> str:
    """The mark of the agent of this gofer."""
    digest = hashlib.sha256()
    for name, content in _sources():
        # Name and length, so that moved content gives another mark.
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:_MARK_LENGTH]


def _source(path: str) -> bytes:
    """The text of a module of gofer, by its path below the package."""
    return (_GOFER / path).read_bytes()


def bundle() -> Bundle:
    """A zip file with the packages of the node side, an otherwise empty `gofer` package, and the mark."""
    import zipfile  # slow to load, and needed only when a machine does not have the agent yet

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _sources():
            # ZipInfo without a time: equal sources give equal bytes.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo(MARK), mark())
    return Bundle(mark(), packed.getvalue())


@cache
def _sources() -> list[tuple[str, bytes]]:
    found = [("__main__.py", _MAIN), ("gofer/__init__.py", b"")]
    for package in NODE_PACKAGES:
        for path in sorted((_GOFER / package).rglob("*.py")):
            found.append((f"gofer/{path.relative_to(_GOFER).as_posix()}", path.read_bytes()))
    return found


def bootstrap_command(python: str, folder: str, nonce: str) -> list[str]:
    """The command line that installs the agent on a machine and starts it.

    The first part of its program runs on every version of Python 3. The other parts need Python 3.8. Two of
    them are modules of gofer that import nothing of gofer, because the agent may not be there yet. The
    program is encoded, so that no shell on the way changes it.
    """
    parts = (
        _VERSION_CHECK.encode(),
        _source("core/private_folder.py"),
        _source("core/agent_installer.py"),
        _START.encode(),
    )
    # A part is compiled when the parts before it have run: an old Python never sees newer syntax.
    encoded = ",".join(f"'{base64.b64encode(part).decode('ascii')}'" for part in parts)
    program = f"import base64\nfor part in ({encoded}): exec(base64.b64decode(part))"
    return [python, "-c", program, nonce, mark(), folder]
