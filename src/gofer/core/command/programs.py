"""Find a program on this machine as a shell would, and run a program to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from typing import Dict, List, NamedTuple, Optional

_MOST_COMPLAINT_BYTES = 16384


class CompletedProgram(NamedTuple):
    """How a program ended.

    `status` is None when the program took too long and was killed. `complaints` is the last part of its
    stderr.
    """

    status: Optional[int]
    complaints: str
    output: bytes


def locate(program: str, search: str) -> Optional[str]:
    """The path at which a shell with the PATH `search` would find the program; None when it would not."""
    if "/" in program:
        return program
    for place in search.split(os.pathsep):
        path = os.path.join(place or ".", program)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def run_program(
    argv: List[str],
    *,
    data: bytes = b"",
    env: Optional[Dict[str, str]] = None,
    cwd: Optional[str] = None,
    timeout_s: float = 60.0,
) -> CompletedProgram:
    """Run a program to its end with `data` as its stdin. `env` is added to this process's environment.

    Blocks. A program that takes longer than `timeout_s` is killed with all processes of its session. OSError
    when the program cannot be started.
    """
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        status: Optional[int]
        try:
            output, _ = process.communicate(data, timeout=timeout_s)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            status = None
        complaints.seek(max(0, complaints.seek(0, os.SEEK_END) - _MOST_COMPLAINT_BYTES))
        words = complaints.read().decode("utf-8", "replace")
    return CompletedProgram(status, words, output)
