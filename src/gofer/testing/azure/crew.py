"""The processes of one attempt: started, waited for, told to end, and gone when it is over."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gofer.testing.azure.launch import Process

_POLL_S = 0.05
# One that was just being started is met in a later round.
_ROUNDS, _GONE_S = 3, 5.0


@dataclass
class Started:
    """A process of the job that runs, or ran. `log` is the name of its log file on the service."""

    process: Process
    child: subprocess.Popen[bytes]
    log: str


def start(
    process: Process, command: str, env: dict[str, str], folder: Path, output: Path
) -> subprocess.Popen[bytes]:
    """In a session of its own, so that all it starts can be ended with it."""
    with open(output, "ab") as log:
        return subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder,
            env={**env, **process.variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def watch(crew: list[Started], peer_grace_s: float, told: Callable[[], bool]) -> bool:
    """Waits. False when the service tells them to end, or when one failed and the others stay on too long."""
    failed_at: float | None = None
    while any(one.child.poll() is None for one in crew):
        now = time.monotonic()
        if failed_at is None and any(one.child.poll() for one in crew):
            failed_at = now
        if told() or (failed_at is not None and now - failed_at > peer_grace_s):
            return False
        time.sleep(_POLL_S)
    return True


def stop(crew: list[Started], grace_s: float, *, hard: bool = False) -> None:
    """SIGTERM to each process and what it started, and time to end."""
    for one in crew:
        tell(one.child.pid, signal.SIGKILL if hard else signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while any(one.child.poll() is None for one in crew) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def bury(crew: list[Started]) -> list[int]:
    """What is left of them is killed, as it would go with its container; the exit codes."""
    for one in crew:
        tell(one.child.pid, signal.SIGKILL)
        one.child.wait()
    return [one.child.returncode for one in crew]


def tell(group: int, number: signal.Signals) -> None:
    """A signal to a process group, if it is there."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def sweep(pids: dict[str, int], name: str) -> None:
    """Kills what an earlier simulator started for this job; another program of the same pid is left alone."""
    for pid in pids.values():
        if f"AZUREML_RUN_ID={name}".encode() in _words(pid):
            tell(pid, signal.SIGKILL)


def end_all(secret: str) -> None:
    """Kills everything that nodes of this simulator run, whatever session it is in; waits until it is gone.

    `secret` is the word by which its nodes prove themselves, and no other simulator's do.
    """
    mark, clean = f"IDENTITY_HEADER={secret}".encode(), 0
    deadline = time.monotonic() + _GONE_S
    while clean < _ROUNDS and time.monotonic() < deadline:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
        found = [pid for pid in pids if mark in _words(pid)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        clean = 0 if found else clean + 1
        time.sleep(_POLL_S)


def _words(pid: int) -> list[bytes]:
    """The environment of a process; none when it is gone, or not ours."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
