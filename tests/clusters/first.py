"""The first process of a cell: sets it up, says `ready`, and waits for its children for ever.

Started as `python -I first.py FOLDER NAME SETUP`. When it is killed, all that runs in the cell is.
SETUP is JSON: `hostname`, `binds` (pairs: what to show, where) and `empty` (folders to show empty).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setup = json.loads(sys.argv[3])
    for folder in setup["empty"]:
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    for shown, place in setup["binds"]:
        run("mount", "--bind", shown, place)
    if setup["hostname"]:
        run("hostname", setup["hostname"])
    os.write(1, b"ready\n")
    os.close(1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        reap()
        signal.sigwait({signal.SIGCHLD})


def reap() -> None:
    """Process 1 inherits the orphans of its cell; their entries stay until it asks for them."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, timeout=60, stdout=subprocess.DEVNULL)


main()
