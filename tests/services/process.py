"""A server as a child process: on a port of its own, ready when the block begins, gone when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from clusters.ports import free_ports

# Long enough for a loaded machine; both servers are up in a second or two on an idle one.
START_TIMEOUT_S = 120.0
_TRIES = 3
_LISTEN = "0A"  # the state in /proc/net/tcp


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    return free_ports(1)[0]


@contextmanager
def serving(argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> Iterator[int]:
    """Runs `argv`, in which `{port}` is replaced; yields the port. AssertionError with its words if it fails.

    The server dies with this process, however that ends.
    """
    process, port = _start(argv, log, {**os.environ, **(env or {})})
    try:
        yield port
        assert process.poll() is None, f"{argv[0]} ended by itself: {_words(log)}"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _start(argv: Sequence[str], log: Path, env: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    for _ in range(_TRIES):
        port = free_port()
        words = ["setpriv", "--pdeathsig", "KILL", *(word.format(port=port) for word in argv)]
        with open(log, "ab") as output:
            process = subprocess.Popen(
                words, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        if _comes_up(process, port):
            return process, port
        process.kill()
        process.wait()
    raise AssertionError(f"`{' '.join(argv)}` did not start: {_words(log)}")


def _comes_up(process: subprocess.Popen[bytes], port: int) -> bool:
    """Whether this very process listens on the port, and not a server of another test."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        if _listens(process.pid, port):
            return True
        time.sleep(0.05)
    return False


def _listens(pid: int, port: int) -> bool:
    try:
        held = {os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")}
        lines = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    except OSError:
        return False
    return any(
        int(local.rpartition(":")[2], 16) == port and state == _LISTEN and f"socket:[{inode}]" in held
        for local, state, inode in ((line[1], line[3], line[9]) for line in lines)
    )


def _words(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:] or "it said nothing"
