"""The supervisor's side of the process that sends run folders to object stores.

The supervisor says which runs to watch and which have ended. The process may be killed at any moment: the
supervisor then starts another and repeats the messages. The new process lists the store to find out what is
already there.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import traceback
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from gofer.core.node_request import NodeRequest
from gofer.core.processes import close_all_but
from gofer.core.sleep import pause
from gofer.queue import wake

if TYPE_CHECKING:
    from gofer.queue.uploader_process import UploadMessage


class UploadResult(NamedTuple):
    """The whole folder of an ended run is in its store, or could not be sent because of `problem`."""

    run_id: str
    problem: str | None


class Uploader:
    """One process for all runs whose store is not a folder. The process starts with the first such run."""

    def __init__(self, queue_home: str) -> None:
        self._queue_home = queue_home
        self._connection: socket.socket | None = None
        self._received = b""
        self._messages: dict[str, UploadMessage] = {}
        self.pid: int | None = None

    @property
    def connections(self) -> list[int]:
        """The file descriptors that become readable when `results` has something to return."""
        return [] if self._connection is None else [self._connection.fileno()]

    def watch(self, run_id: str, request: NodeRequest) -> None:
        """Send what the run writes, from now on. Idempotent; does not block."""
        self._inform(_message(run_id, request))

    def finish(self, run_id: str, request: NodeRequest, *, is_over: bool) -> None:
        """Send the rest of a run that has ended, then its line of `ends.jsonl`. `is_over`: the run was the
        last of its request.
        """
        self._inform(_message(run_id, request, ended=True, over=is_over))

    def results(self) -> list[UploadResult]:
        """The runs given to `finish` that are done since the last call. Does not block."""
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
        *lines, self._received = (self._received + data).split(b"\n")
        found = [UploadResult(**json.loads(line)) for line in lines]
        for one in found:
            self._messages.pop(one.run_id, None)
        return found

    def close(self) -> None:
        """End the process and wait for it. The next supervisor's process sends what is left."""
        if self._connection is not None and self.pid is not None:
            self._connection.close()
            os.waitpid(self.pid, 0)
        self._connection = self.pid = None

    def _inform(self, message: UploadMessage) -> None:
        self._messages[message["run"]] = message
        if self._connection is None:
            self._start()
        else:
            self._send(self._connection, message)

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            _run_uploader(self._queue_home, theirs)
        theirs.close()
        self._connection, self.pid, self._received = ours, pid, b""
        for message in self._messages.values():
            self._send(ours, message)
        ours.setblocking(False)

    def _start_again(self) -> None:
        self.close()
        pause(0.05)  # a process that dies at once must not be forked in a busy loop
        self._start()

    def _send(self, connection: socket.socket, message: UploadMessage) -> None:
        connection.setblocking(True)
        try:
            connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # the process is gone; `results` finds this out and starts another
        finally:
            connection.setblocking(False)


def _message(run_id: str, request: NodeRequest, *, ended: bool = False, over: bool = False) -> UploadMessage:
    return {"run": run_id, "request": request.id, "sync": request.sync, "ended": ended, "over": over}


def _run_uploader(queue_home: str, connection: socket.socket) -> NoReturn:
    """In the forked child. Nothing may return into the supervisor's code."""
    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        close_all_but({0, 1, 2, connection.fileno()})
        from gofer.queue.uploader_process import (
            upload_runs,  # it imports much that the supervisor does not need
        )

        if upload_runs(queue_home, connection):
            wake.ensure(queue_home)  # work was left, so the supervisor was killed
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)
