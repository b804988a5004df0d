"""Verbs for any machine: its user, programs, files."""

from __future__ import annotations

import os
import platform
import pwd
from typing import Dict, List, Optional

from gofer.core.programs import run_program
from gofer.remote.answer import Answer


def facts(data: bytes) -> Answer:
    """The machine's user, host and Python."""
    who = pwd.getpwuid(os.getuid())
    return Answer(
        {
            "user": who.pw_name,
            "uid": os.getuid(),
            "home": os.path.expanduser("~"),
            "host": os.uname().nodename,
            "python": platform.python_version(),
            "pid": os.getpid(),
        }
    )


def run(
    data: bytes,
    argv: List[str],
    env: Optional[Dict[str, str]] = None,
    cwd: Optional[str] = None,
    timeout_s: float = 60.0,
) -> Answer:
    """Run a program to its end with `data` as input. Returns its status, the end of its error output, its
    output.

    After `timeout_s` the program is killed with all its child processes, and its status is None. `env` is
    added to the environment of the machine.
    """
    done = run_program(argv, data=data, env=env, cwd=cwd, timeout_s=timeout_s)
    return Answer({"status": done.status, "complaints": done.complaints}, done.output)


def write(data: bytes, path: str, mode: int = 0o644, new: bool = False) -> Answer:
    """Replace a file in one step and make its folders. With `new`, FileExistsError when the file exists."""
    path = os.path.expanduser(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        if new:
            os.link(temporary, path)  # unlike a rename, a link fails when the name exists
            os.link(temporary, path)
        else:
            os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return Answer(path)


def read(data: bytes, path: str, start: int = 0, length: int = -1) -> Answer:
    """Bytes of a file, and its size; a negative start counts from the end."""
    with open(os.path.expanduser(path), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size + start) if start < 0 else start)
        return Answer(size, file.read(length))


def remove(data: bytes, path: str) -> Answer:
    """Remove a file; False when it does not exist."""
    try:
        os.unlink(os.path.expanduser(path))
    except FileNotFoundError:
        return Answer(False)
    return Answer(True)


VERBS = {
    "machine.facts": facts,
    "machine.run": run,
    "machine.write": write,
    "machine.read": read,
    "machine.remove": remove,
}
