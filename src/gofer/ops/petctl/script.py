"""The file `petctl.py` that `gofer init --petctl` writes, and the Dockerfile beside it."""

from __future__ import annotations

import sys
from pathlib import Path

from gofer.core.files import write_whole
from gofer.errors import CheckFailed
from gofer.importers.petctl import FOLDER

_SCRIPT = '''\
#!/usr/bin/env python3
"""The command line of petctl, carried out by gofer. `gofer init --petctl` wrote this file."""

import os
import sys

try:
    from gofer.cli.petctl import main
except ImportError:
    # Another Python than the one that has gofer.
    python = {python!r}
    if sys.executable == python or not os.path.exists(python):
        sys.exit("error: this Python has no gofer\\nhint: install gofer, then type `gofer init --petctl`")
    os.execv(python, [python, *sys.argv])

sys.exit(main(sys.argv[1:]))
'''
_DOCKERFILE = """\
# The image of the workers: the first line names it, and `python petctl.py run_job` uses it as it is unless
# `docker_secret --image_name` names another.
FROM pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime
"""


def write_script(folder: Path) -> list[Path]:
    """Write both files where they are missing; the paths of those that were written. A `petctl.py` of gofer
    is replaced; CheckFailed for one of somebody else.
    """
    script, dockerfile = folder / "petctl.py", folder / FOLDER / "Dockerfile"
    text = _SCRIPT.format(python=sys.executable)
    written = []
    if script.exists() and "gofer" not in script.read_text(errors="replace"):
        raise CheckFailed(
            f"`{script}` is not a file of gofer", hint="move it, then type `gofer init --petctl` again"
        )
    write_whole(str(script), text.encode(), mode=0o755)
    written.append(script)
    if not dockerfile.exists():
        dockerfile.parent.mkdir(parents=True, exist_ok=True)
        write_whole(str(dockerfile), _DOCKERFILE.encode())
        written.append(dockerfile)
    return written
