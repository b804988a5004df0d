"""The Python program that installs and starts the agent on a machine.

It runs on every version of Python 3.
"""

from __future__ import annotations

import base64

NEEDED = "needed"
READY = "ready"

# `ready` comes from the agent itself when it can answer; a Python older than 3.8 reports its version instead.
# `os.utime` refreshes the time of the agent's folder, which `prune` takes as the time of its last use.
_PROGRAM = """
import os, sys
nonce, mark, folder = sys.argv[1:4]
def say(word):
    sys.stdout.write("\\n" + nonce + " " + word + "\\n")
    sys.stdout.flush()
if sys.version_info < (3, 8):
    say("%d.%d" % sys.version_info[:2])
    sys.exit(3)
top = os.path.expanduser(folder)
place = os.path.join(top, "agent")
umask = os.umask(0o077)
os.makedirs(place, exist_ok=True)
os.umask(umask)
for path in (place, top):
    found = os.stat(path)
    if found.st_uid == os.getuid():
        if found.st_mode & 0o022:
            os.chmod(path, found.st_mode & 0o7755)
    elif found.st_uid or path == place or found.st_mode & 0o022 and not found.st_mode & 0o1000:
        sys.exit("%s belongs to user %d: name another folder in the target" % (path, found.st_uid))
agent = os.path.join(place, mark)
try:
    os.utime(agent)
except OSError:
    pass
if not os.path.isdir(agent):
    say("needed")
    size = int(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read(size)
    import io, shutil, tempfile, zipfile
    part = tempfile.mkdtemp(dir=place)
    zipfile.ZipFile(io.BytesIO(data)).extractall(part)
    try:
        os.rename(part, agent)
    except OSError:
        shutil.rmtree(part)
sys.path.insert(0, agent)
from gofer.remote.server import serve
serve(nonce + " ready")
"""


def command(python: str, folder: str, nonce: str) -> list[str]:
    """The command line for the machine. The program is encoded, so that no shell on the way changes it."""
    from gofer.transport.bundle import mark

    encoded = base64.b64encode(_PROGRAM.encode()).decode("ascii")
    program = f"import base64; exec(base64.b64decode('{encoded}'))"
    return [python, "-c", program, nonce, mark(), folder]
