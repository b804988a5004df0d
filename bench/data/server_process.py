"""A server as a child process on a port of its own: ready when the block begins, gone when it ends."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.errors import BenchError

_START_TIMEOUT_S = 60.0


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listened on a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def server_process(argv: Sequence[str], port: int, *, log: Path, env: Mapping[str, str]) -> Iterator[None]:
    """BenchError with the server's last words when it does not begin to listen on `port`."""
    with open(log, "ab") as output:
        try:
            # It dies with this process, however that ends; and hard, since nobody needs what it holds.
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *argv],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise BenchError(f"`{argv[0]}` did not start: {error}") from error
    try:
        _await(process, port, log)
        yield
    finally:
        process.kill()
        process.wait()


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    words = log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
    raise BenchError(f"the server on port {port} did not start: {words[0][:200]}")
