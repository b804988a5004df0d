"""The processes of one attempt: started, waited for, told to end, and gone when it is over."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulators.azure.launch import Process

_POLL_S = 0.05
# One that was just being started is met in a later round.
_ROUNDS, _GONE_S = 3, 5.0
# Variables of the service that say together whose a process is: the simulator's, the job's and the node's.
_OF_NODE = ("IDENTITY_HEADER", "AZUREML_WORKSPACE_SCOPE", "AZUREML_RUN_ID", "AZ_BATCH_NODE_ID")


class Stopped(Exception):
    """The simulator ends: what is under way is left as it stands, for the next one to take up."""


class Gate:
    """Processes are started in its `passage`, and none after `shut`. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_shut = False

    def shut(self) -> None:
        """Waits for a start that is under way."""
        with self._lock:
            self._is_shut = True

    @contextlib.contextmanager
    def passage(self) -> Iterator[None]:
        """Stopped once it is shut."""
        with self._lock:
            if self._is_shut:
                raise Stopped
            yield


@dataclass
class Started:
    """A process of the job that runs, or ran. `log` is the name of its log file on the service.

    `marks` are the variables by which whatever its node runs is known.
    """

    process: Process
    child: subprocess.Popen[bytes]
    log: str
    marks: Mapping[str, str]


def start(argv: Sequence[str], env: Mapping[str, str], folder: Path, output: Path) -> subprocess.Popen[bytes]:
    """In a session of its own, so that all it starts can be told to end with it."""
    with open(output, "ab") as log:
        return subprocess.Popen(
            argv,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def watch(processes: list[Started], peer_grace_s: float, is_told: Callable[[], bool]) -> bool:
    """Waits. False when the service tells them to end, or when one failed and the others stay on too long."""
    failed_at: float | None = None
    while any(one.child.poll() is None for one in processes):
        now = time.monotonic()
        if failed_at is None and any(one.child.poll() for one in processes):
            failed_at = now
        if is_told() or (failed_at is not None and now - failed_at > peer_grace_s):
            return False
        time.sleep(_POLL_S)
    return True


def stop(processes: list[Started], grace_s: float, *, hard: bool = False) -> None:
    """SIGTERM to each process and what it started, and time to end."""
    for one in processes:
        signal_group(one.child.pid, signal.SIGKILL if hard else signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while any(one.child.poll() is None for one in processes) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def end_processes(processes: list[Started]) -> list[int]:
    """What is left on their nodes is killed, as it would go with its container; the exit codes."""
    for one in processes:
        signal_group(one.child.pid, signal.SIGKILL)
        one.child.wait()
    _end([one.marks for one in processes])
    return [one.child.returncode for one in processes]


def signal_group(group: int, number: signal.Signals) -> None:
    """A signal to a process group, if it is there."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def marks(env: Mapping[str, str]) -> dict[str, str]:
    """What the environment of a node's process says of whose it is."""
    return {name: env[name] for name in _OF_NODE if name in env}


def end_all(secret: str) -> None:
    """Kills everything that nodes of this simulator run; waits until it is gone.

    `secret` is the word by which its nodes prove themselves, and no other simulator's do.
    """
    _end([{"IDENTITY_HEADER": secret}])


def _end(nodes: Collection[Mapping[str, str]]) -> None:
    """Kills every process that has all the marks of one of the nodes, whatever session it is in.

    One that threw its variables away is not found.
    """
    wanted = {frozenset(f"{name}={value}".encode() for name, value in node.items()) for node in nodes if node}
    clean, deadline = 0, time.monotonic() + _GONE_S
    while wanted and clean < _ROUNDS and time.monotonic() < deadline:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
        found = [pid for pid in pids if (words := _words(pid)) and any(node <= words for node in wanted)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        clean = 0 if found else clean + 1
        time.sleep(_POLL_S)


def _words(pid: int) -> set[bytes]:
    """The environment of a process; none when it is gone, or not ours."""
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()
