"""The supervisor's handle on the process that carries run folders to object stores.

It is told which runs to watch and which have ended. It may be killed at any moment: its supervisor starts
another and tells it the same again, and what the store has already tells the new one where to go on.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import traceback
from typing import Any, NamedTuple, NoReturn

from gofer.core.processes import close_all_but
from gofer.core.sleep import pause
from gofer.queue import wake


class Carried(NamedTuple):
    """A run's folder is in its store for good, or (with `problem`) cannot be brought there."""

    run_id: str
    problem: str | None


class Carrier:
    """One process for all runs whose store is not a folder; started when the first such run starts."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._connection: socket.socket | None = None
        self._heard = b""
        self._told: dict[str, dict[str, Any]] = {}
        self.pid: int | None = None

    @property
    def connections(self) -> list[int]:
        """What to wait on for news."""
        return [] if self._connection is None else [self._connection.fileno()]

    def watch(self, run_id: str, request: dict[str, Any]) -> None:
        """Send what the run writes, from now on."""
        self._tell(_message(run_id, request))

    def finish(self, run_id: str, request: dict[str, Any], *, is_over: bool) -> None:
        """The run has ended, and its line is in the list of ends; `is_over`: as the last of its request."""
        self._tell(_message(run_id, request, ended=True, over=is_over))

    def news(self) -> list[Carried]:
        """What has become of finished runs since the last call."""
        if self._connection is None:
            return []
        try:
            data = self._connection.recv(65536)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self._start_again()
            return []
        *lines, self._heard = (self._heard + data).split(b"\n")
        found = [Carried(**json.loads(line)) for line in lines]
        for one in found:
            self._told.pop(one.run_id, None)
        return found

    def close(self) -> None:
        """Let the process go; what it has not sent is told to the next one."""
        if self._connection is not None and self.pid is not None:
            self._connection.close()
            os.waitpid(self.pid, 0)
        self._connection = self.pid = None

    def _tell(self, message: dict[str, Any]) -> None:
        self._told[message["run"]] = message
        if self._connection is None:
            self._start()
        else:
            self._send(self._connection, message)

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            _be_carrier(self._engine, theirs)
        theirs.close()
        self._connection, self.pid, self._heard = ours, pid, b""
        for message in self._told.values():
            self._send(ours, message)
        ours.setblocking(False)

    def _start_again(self) -> None:
        self.close()
        pause(0.05)  # a process that dies at once must not be forked as fast as it dies
        self._start()

    def _send(self, connection: socket.socket, message: dict[str, Any]) -> None:
        connection.setblocking(True)
        try:
            connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # it is gone, which `news` will find
        finally:
            connection.setblocking(False)


def _message(
    run_id: str, request: dict[str, Any], *, ended: bool = False, over: bool = False
) -> dict[str, Any]:
    words = {"run": run_id, "request": request["id"], "sync": request["sync"]}
    return {**words, "ended": ended, "over": over}


def _be_carrier(engine: str, connection: socket.socket) -> NoReturn:
    """In the forked child. Nothing may return into the supervisor's code."""
    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        close_all_but({0, 1, 2, connection.fileno()})
        from gofer.queue.uploader_process import carry  # it needs much that no supervisor does

        if carry(engine, connection):
            wake.ensure(engine)  # the supervisor did not leave, it was killed
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)
