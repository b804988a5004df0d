"""A project whose command binds a Unix socket in its folder, as servers of models do."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from home import Home, until

# The shell knows the folder by $PWD. The socket stays where it is when the command ends.
COMMAND = ("sh", "-c", 'exec python3 bind.py "$PWD"')
_PROGRAM = """
import os, socket, sys
path = sys.argv[1] + "/run/ipc/inference-server.sock"
os.makedirs(os.path.dirname(path))
server = socket.socket(socket.AF_UNIX)
server.bind(path)
print(sys.argv[1])
"""


def write_project(folder: Path) -> None:
    (folder / "bind.py").write_text(_PROGRAM)


def bind(home: Home, *options: str) -> Path:
    """Run the command; the folder that it ran in."""
    write_project(home.folder)
    run_id = home.gofer("submit", "-Q", "--wait", *options, *COMMAND).out.strip()
    return Path(home.log(f"{run_id}-0" if "--each" in options else run_id).strip())


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder of the test's own whose path has few bytes, which those of pytest have not."""
    path = Path(tempfile.mkdtemp(prefix="g", dir="/tmp"))
    try:
        yield path
    finally:
        # A supervisor, here or on a machine over SSH, writes there until it leaves.
        until(lambda: not _supervisors(path), f"no supervisor of a queue in {path}")
        shutil.rmtree(path)


def _supervisors(path: Path) -> list[str]:
    found = []
    for words in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if os.fsencode(path) in words.read_bytes():
                found.append(words.parent.name)
    return found
